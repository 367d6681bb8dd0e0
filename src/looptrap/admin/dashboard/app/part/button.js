// A button that says why it cannot be pressed.

import { html } from "../html.js";

/** Why it cannot be pressed is its title; empty where it can. Among many alike, `about` tells which it is. */
export function Button({ onClick, children, why = "", kind = "", about }) {
  return html`<button type="button" class="button ${kind}" disabled=${Boolean(why)} title=${why || undefined} aria-label=${about && `${children} ${about}`} onClick=${onClick}>${children}</button>`;
}
