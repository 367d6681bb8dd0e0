// One number with its name and unit, linked to its details.

import { html } from "../html.js";

export function Figure({ name, value, note, href, tone = "", title }) {
  return html`
    <div class="figure ${tone}">
      <dt>${name}</dt>
      <dd>
        <span class="figure-value" title=${title}>
          ${href ? html`<a href=${href}>${value}</a>` : value}
        </span>
        ${note && html`<span class="figure-note quiet">${note}</span>`}
      </dd>
    </div>
  `;
}
