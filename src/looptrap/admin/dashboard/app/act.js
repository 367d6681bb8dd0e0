// Something is done, said, and seen.

import { say } from "./part/toast.js";

/** Wait until it is done, say so in words (or what they make of the answer), then show how it is now. */
export async function act(request, words, onChange) {
  const answer = await request;
  say(typeof words === "function" ? words(answer) : words);
  await onChange?.();
}
