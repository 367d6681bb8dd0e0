// Short messages about what was done; they disappear after some seconds.

import { html } from "../html.js";
import { observed, useObserved } from "../observed.js";

const SHOWN_MS = 6_000;
const said = observed([]);
const heard = observed("");
let number = 0;

/** Show a message for a few seconds; a tone of "bad" for a failure. */
export function say(text, tone = "good") {
  const one = { id: ++number, text, tone };
  said.set([...said.value.slice(-2), one]);
  setTimeout(() => said.set(said.value.filter((other) => other.id !== one.id)), SHOWN_MS);
}

/** Say something to screen readers only. */
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
