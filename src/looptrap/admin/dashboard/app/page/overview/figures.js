// The numbers at the top of the overview, each linked to its details.

import { html } from "../../html.js";
import { compact, count, counted, dollars, percent, tokens } from "../../number.js";
import { linkTo } from "../../pages.js";
import { bandsOf } from "../../part/chart.js";
import { Figure } from "../../part/figure.js";

export function Figures({ stats, since }) {
  const { totals, burning } = stats;
  const bands = bandsOf(totals);
  const incidents = linkTo("incidents", { state: "all", since });
  return html`
    <dl class="figures">
      <${Figure} name="Burning now" tone=${burning.loops ? "refused" : ""} value=${html`${dollars(burning.usd_an_hour)}<small>/h</small>`} href=${linkTo("incidents")} note=${burning.loops ? `${counted(burning.loops, "loop")} whose calls pass` : "no loop is being paid for"} />
      <${Figure} name="Spent by loops" value=${dollars(totals.looped_usd)} href=${incidents} note=${totals.cost_usd ? `${percent(totals.looped_usd, totals.cost_usd)} of all spending` : "no spending"} />
      <${Figure} name="Saved" tone=${totals.saved_usd ? "saved" : ""} value=${dollars(totals.saved_usd)} href=${incidents} note=${html`<${How} words=${stats.saved_usd?.how} />`} />
      <${Figure} name="Spent" value=${dollars(totals.cost_usd)} href=${linkTo("callers", { order: "cost", since })} note=${priced(totals)} />
      <${Figure} name="Requests" value=${compact(totals.calls)} title=${count(totals.calls)} href=${linkTo("callers", { order: "calls", since })}
        note=${tokens(totals.input_tokens + totals.output_tokens)} />
      <${Figure} name="Refused" value=${compact(bands.refused)} title=${count(bands.refused)} href=${incidents} note=${others(bands, totals)} />
    </dl>
  `;
}

function others({ warned, shadowed }, { calls }) {
  if (!calls) return "no requests";
  return [`${compact(warned)} warned`, shadowed && `${compact(shadowed)} in shadow`].filter(Boolean).join(", ");
}

function How({ words }) {
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
