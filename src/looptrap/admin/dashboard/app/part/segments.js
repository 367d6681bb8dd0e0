// One of a few, each a link: what is chosen lives in the address.

import { html } from "../html.js";

/** @param {{label: string, choices: {name: string, title: string}[], current: string, to: (name: string) => string}} props */
export function Segments({ label, choices, current, to }) {
  return html`
    <nav class="segments" aria-label=${label}>
      ${choices.map(({ name, title }) => html`<a key=${name} href=${to(name)} aria-current=${name === current ? "true" : undefined}>${title}</a>`)}
    </nav>
  `;
}
