// What an incident cost, what refusals saved, and a projection of the cost.

import { html } from "../../html.js";
import { counted, dollars, NONE, tokens } from "../../number.js";
import { saved, spent } from "../../wording.js";

export function Money({ incident }) {
  const { projected_usd_an_hour: projected, refused } = incident;
  const passed = Math.max(0, incident.calls - refused);
  return html`
    <section class="card" aria-labelledby="money">
      <h2 id="money">Money</h2>
      <dl class="money">
        <div><dt>Spent</dt><dd><b>${spent(incident)}</b> <span class="quiet">${counted(passed, "call")} passed ${incident.mode === "shadow" ? "that a rule would have acted on" : "after a rule had acted"}</span></dd></div>
        <div><dt>Saved</dt><dd><b class=${incident.saved_usd ? "saved" : ""}>${saved(incident)}</b> <span class="quiet">${savedWords(incident)}</span></dd></div>
        <div><dt>Projection</dt><dd><b>${projected === null || projected === undefined ? NONE : `${dollars(projected)} an hour`}</b> <span class="quiet">${incident.mode === "shadow" ? "if it continues at this rate" : "if all its calls had passed at this rate"}; not included above</span></dd></div>
      </dl>
    </section>
  `;
}

function savedWords({ refused, saved_usd: amount, saved_tokens: used }) {
  if (!refused) return "nothing was refused";
  const calls = `${counted(refused, "call")} refused`;
  if (amount === null || amount === undefined) return `${calls}, about ${tokens(used)}`;
  return `${calls} at about ${dollars(amount / refused)} each, about ${tokens(used)}`;
}
