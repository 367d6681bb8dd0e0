// The mark: a ring that is open while nothing loops, and shut while something does.

import { html } from "../html.js";

export function Mark({ isShut = false, size = 22 }) {
  return html`
    <svg class="mark" viewBox="0 0 32 32" width=${size} height=${size} aria-hidden="true">
      <path class="ring" d="M20.6 7.2A10 10 0 1 0 25.9 14" />
      ${isShut ? html`<path class="latch" d="M20.6 7.2A10 10 0 0 1 25.9 14" />` : html`<circle class="bait" cx="23.9" cy="9.9" r="2.1" />`}
    </svg>
  `;
}
