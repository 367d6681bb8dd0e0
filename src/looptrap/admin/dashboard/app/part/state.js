// What is shown in place of content: empty, loading, failed.

import { html } from "../html.js";
import { Mark } from "./mark.js";

export function Empty({ title, children, isCalm = false }) {
  return html`
    <div class="empty">
      ${isCalm && html`<${Mark} size=${40} />`}
      <p class="empty-title">${title}</p>
      ${children && html`<div class="quiet">${children}</div>`}
    </div>
  `;
}

/** Grey lines where content will be, as many as it is likely to have. */
export function Loading({ lines = 4, label = "Loading" }) {
  return html`
    <div class="loading" role="status" aria-label=${label}>
      ${Array.from({ length: lines }, (_, index) => html`<span class="bone" key=${index}></span>`)}
    </div>
  `;
}

export function Failed({ error, onRetry, what = "This" }) {
  return html`
    <div class="failed" role="alert">
      <p><strong>${what} could not be loaded.</strong> ${error.message}</p>
      ${onRetry && html`<button type="button" class="button" onClick=${onRetry}>Try again</button>`}
    </div>
  `;
}

/**
 * Show what `useLoaded` gave: grey lines while it loads, the error if it failed, else `children(value)`.
 * The value stays if loading it again fails: the state of the connection says why.
 */
export function Loaded({ of, lines, what, children }) {
  if (of.value !== null) return children(of.value);
  if (of.error) return html`<${Failed} error=${of.error} onRetry=${of.reload} what=${what} />`;
  return html`<${Loading} lines=${lines} />`;
}
