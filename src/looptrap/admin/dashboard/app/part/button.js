// A button that says why it cannot be pressed.

import { html } from "../html.js";

/** `why` it cannot be pressed is its title; empty if it can. `about` names it among equal buttons. */
export function Button({ onClick, children, why = "", kind = "", about }) {
  return html`<button type="button" class="button ${kind}" disabled=${Boolean(why)} title=${why || undefined} aria-label=${about && `${children} ${about}`} onClick=${onClick}>${children}</button>`;
}
