// Leading indicators: values that often rise before an incident.

import { html } from "../../html.js";
import { compact } from "../../number.js";
import { linkTo } from "../../pages.js";
import { Badge } from "../../part/badge.js";

export function Indicators({ indicators }) {
  return html`
    <section class="card" aria-labelledby="indicators">
      <h2 id="indicators">Leading indicators <span class="quiet">of the worst session or caller</span></h2>
      ${indicators.length === 0 && html`<p class="quiet">There are no indicators.</p>`}
      <ul class="indicators">
        ${indicators.map((one) => html`
          <li key=${one.name} class="row between">
            <span><a href=${linkTo("callers", { by: "session" })}>${one.name.replaceAll("_", " ")}</a> <b>${figure(one.value)}</b> <span class="quiet">threshold ${figure(one.threshold)}</span></span>
            <${Badge} tone=${one.is_firing ? "warned" : "good"}>${one.is_firing ? "firing" : "normal"}<//>
          </li>
        `)}
      </ul>
    </section>
  `;
}

/** Indicators have units of their own; small values keep their digits. */
function figure(value) {
  return Math.abs(value) < 100 ? String(Math.round(value * 100) / 100) : compact(value);
}
