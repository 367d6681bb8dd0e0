// Usage over time: of all rows, or of the chosen one.

import { html } from "../../html.js";
import { counted, dollars, tokens } from "../../number.js";
import { linkTo } from "../../pages.js";
import { Bars } from "../../part/bars.js";
import { place } from "../../router.js";
import { iso, now } from "../../time.js";
import { called, incidentsOf, tokensOf } from "./share.js";

const COST = { title: "Cost", of: (one) => one.cost_usd, words: dollars };
const TOKENS = { title: "Tokens", of: tokensOf, words: tokens };
const MEASURES = {
  cost: COST,
  refused: { title: "Refused calls", of: (one) => one.refused, words: (value) => counted(value, "call") },
  calls: { title: "Calls", of: (one) => one.calls, words: (value) => counted(value, "call") },
  tokens: TOKENS,
  burn: TOKENS,
};

/** `report` is the answer of `GET /spending`; its series has the rows with the highest cost, and no sessions. */
export function Course({ report, by, order, name, since, range }) {
  const chosen = name === undefined ? null : report.rows.find((row) => row.name === name);
  const series = report.series ?? [];
  const own = chosen ? series.filter((point) => point.name === chosen.name) : series;
  const isUnpriced = order === "cost" && own.length > 0 && own.every((point) => point.cost_usd === null);
  const measure = isUnpriced ? TOKENS : MEASURES[order];
  const points = summed(own, measure);
  const whole = points.reduce((sum, point) => sum + point.value, 0);
  const isUntold = chosen && !own.length;
  return html`
    <section class="card" aria-labelledby="course">
      <h2 id="course">${measure.title} over time: ${chosen ? called(by, chosen.name) : "all"} <span class="quiet">${range.words}</span></h2>
      ${isUnpriced && html`<p class="quiet">These calls have no price, so the chart shows their tokens.</p>`}
      ${isUntold
        ? html`<p class="quiet">${by === "session" ? "There is no chart over time for a session." : "There is a chart over time only for the ten that cost most."}</p>`
        : html`<${Bars} points=${points} since=${since} until=${now()} step=${range.step} words=${measure.words} summary=${`${measure.title} of ${chosen ? called(by, chosen.name) : "all"} in the ${range.words}: ${measure.words(whole)} in total.`} />`}
      <${Facts} one=${chosen ?? report.totals} chosen=${chosen} by=${by} since=${since} />
    </section>
  `;
}

function Facts({ one, chosen, by, since }) {
  const past = { state: "all", since: iso(since) };
  const incidents = chosen ? incidentsOf(by, chosen, past) : linkTo("incidents", past);
  const refused = counted(one.refused, "call");
  return html`
    <p class="facts quiet">
      <span>${counted(one.calls, "call")}</span>
      <span>${incidents && one.refused ? html`<a href=${incidents}>${refused} refused</a>` : `${refused} refused`}</span>
      <span>${tokens(tokensOf(one))}</span>
      <span>cost ${dollars(one.cost_usd)}</span>
      <span>${one.unpriced ? `${counted(one.unpriced, "call")} unpriced` : ""}</span>
      <span>${one.saved_usd ? `${dollars(one.saved_usd)} saved` : ""}</span>
      ${chosen && html`<span><a href=${linkTo("callers", { ...place.value.query, name: "" })}>Show all</a></span>`}
    </p>
  `;
}

/** Points of the same time are one. */
function summed(series, measure) {
  const values = new Map();
  for (const point of series) values.set(point.time, (values.get(point.time) ?? 0) + (measure.of(point) ?? 0));
  return [...values].map(([time, value]) => ({ time, value }));
}
