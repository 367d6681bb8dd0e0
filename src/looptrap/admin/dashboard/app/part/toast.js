// Short words about what was done, seen and heard; they go by themselves.

import { html } from "../html.js";
import { observed, useObserved } from "../observed.js";

const SHOWN_MS = 6_000;
const said = observed([]);
const heard = observed("");
let number = 0;

/** Show words for a few seconds; a tone of "bad" for what failed. */
export function say(text, tone = "good") {
  const one = { id: ++number, text, tone };
  said.set([...said.value.slice(-2), one]);
  setTimeout(() => said.set(said.value.filter((other) => other.id !== one.id)), SHOWN_MS);
}

/** Tell only those who listen to the page instead of looking at it. */
export function announce(text) {
  heard.set(text);
}

export function Toasts() {
  const shown = useObserved(said);
  const words = useObserved(heard);
  return html`
    <div class="toasts" role="status" aria-live="polite">
      ${shown.map((one) => html`<p key=${one.id} class="toast ${one.tone}">${one.text}</p>`)}
    </div>
    <p class="unseen" aria-live="polite">${words}</p>
  `;
}
