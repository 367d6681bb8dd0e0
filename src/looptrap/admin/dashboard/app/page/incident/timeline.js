// The steps of an incident by time.

import { html } from "../../html.js";
import { count } from "../../number.js";
import { Moment } from "../../part/moment.js";
import { stepped } from "../../wording.js";

export function Timeline({ steps = [], mode }) {
  return html`
    <section class="card" aria-labelledby="timeline">
      <h2 id="timeline">Timeline</h2>
      ${steps.length === 0 && html`<p class="quiet">No steps are recorded.</p>`}
      <ol class="timeline">
        ${steps.map((step, index) => html`
          <li key=${index}>
            <${Moment} at=${step.time} isExact />
            <span>${stepped(step, mode)}${step.rule ? html` <span class="quiet">by ${step.rule}${step.count ? ` at ${count(step.count)}` : ""}</span>` : ""}</span>
          </li>
        `)}
      </ol>
    </section>
  `;
}
