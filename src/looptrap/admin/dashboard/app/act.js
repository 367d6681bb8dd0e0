// Wait for a change, report it, and load again.

import { say } from "./part/toast.js";

/** Await a request, show a message (text, or a function of the answer), then call `onChange`. */
export async function act(request, words, onChange) {
  const answer = await request;
  say(typeof words === "function" ? words(answer) : words);
  await onChange?.();
}
