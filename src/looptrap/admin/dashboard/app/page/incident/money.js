// What the loop cost, what refusals saved, and a projection of the cost.

import { html } from "../../html.js";
import { counted, dollars, NONE, tokens } from "../../number.js";
import { saved, spent } from "../../wording.js";

export function Money({ incident }) {
  const { projected_usd_an_hour: projected } = incident;
  return html`
    <section class="card" aria-labelledby="money">
      <h2 id="money">Money ${incident.is_demo && html`<span class="quiet">of a demo: nothing was spent</span>`}</h2>
      <dl class="money">
        <div><dt>Spent</dt><dd><b>${spent(incident)}</b> <span class="quiet">${spentWords(incident)}</span></dd></div>
        <div><dt>Saved</dt><dd><b class=${incident.saved_usd ? "saved" : ""}>${saved(incident)}</b> <span class="quiet">${savedWords(incident)}</span></dd></div>
        <div><dt>Projection</dt><dd><b>${projected === null || projected === undefined ? NONE : `${dollars(projected)} an hour`}</b> <span class="quiet">if all its calls pass, at the rate seen; not included above</span></dd></div>
      </dl>
    </section>
  `;
}

function spentWords({ paid, before }) {
  if (!paid) return "no call of it was paid for";
  return `${counted(paid, "paid call")}${before ? `, ${before === paid ? "all" : before} of them before a rule acted, at the mean price` : ""}`;
}

function savedWords({ refused, saved_usd: amount, saved_tokens: used }) {
  if (!refused) return "nothing was refused";
  const calls = `${counted(refused, "call")} refused`;
  if (amount === null || amount === undefined) return `${calls}, about ${tokens(used)}`;
  return `${calls} at about ${dollars(amount / refused)} each, about ${tokens(used)}`;
}
