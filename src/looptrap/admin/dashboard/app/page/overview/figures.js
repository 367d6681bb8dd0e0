// The numbers at the top of the overview, each linked to its details.

import { html } from "../../html.js";
import { compact, count, counted, dollars, percent, tokens } from "../../number.js";
import { linkTo } from "../../pages.js";
import { bandsOf } from "../../part/chart.js";
import { Figure } from "../../part/figure.js";

export function Figures({ stats, since, open }) {
  const { totals } = stats;
  const bands = bandsOf(totals);
  const incidents = linkTo("incidents", { state: "all", since });
  return html`
    <dl class="figures">
      <${Figure} name="Requests" value=${compact(totals.calls)} title=${count(totals.calls)} href=${linkTo("callers", { order: "calls", since })}
        note=${tokens(totals.input_tokens + totals.output_tokens)} />
      <${Figure} name="Refused" tone=${bands.refused ? "refused" : ""} value=${compact(bands.refused)} title=${count(bands.refused)} href=${incidents} note=${totals.calls ? `${percent(bands.refused, totals.calls)} of requests` : "no requests"} />
      <${Figure} name="Warned" tone=${bands.warned ? "warned" : ""} value=${compact(bands.warned)} title=${count(bands.warned)} href=${incidents}
        note=${bands.shadowed ? `${count(bands.shadowed)} more in shadow` : "passed with a warning"} />
      <${Figure} name="Saved" tone=${totals.saved_usd ? "saved" : ""} value=${dollars(totals.saved_usd)} href=${incidents} note=${html`<${How} words=${stats.saved_usd?.how ?? stats.how} />`} />
      <${Figure} name="Spent" value=${dollars(totals.cost_usd)} href=${linkTo("callers", { order: "cost", since })} note=${priced(totals)} />
      <${Figure} name="Open incidents" tone=${open ? "open" : ""} value=${count(open)} href=${linkTo("incidents")} note=${open ? "right now" : "no loop"} />
    </dl>
  `;
}

function How({ words = "Each refused call is priced at what a call of its own loop cost; where none had passed, at its input alone." }) {
  return html`
    <details class="how">
      <summary>how it is estimated</summary>
      <p>${words}</p>
    </details>
  `;
}

function priced({ calls, unpriced, estimated }) {
  const parts = [];
  if (unpriced) parts.push(`without ${counted(unpriced, "unpriced call")}`);
  if (estimated) parts.push(`${counted(estimated, "call")} estimated`);
  return parts.join(", ") || (calls ? "all calls priced" : "no calls");
}
