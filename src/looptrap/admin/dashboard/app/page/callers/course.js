// Usage over time, stacked by name: of all rows, or of the chosen one.

import { html, useMemo } from "../../html.js";
import { compact, counted, dollars, tokens } from "../../number.js";
import { linkTo } from "../../pages.js";
import { StackedChart } from "../../part/stacked_chart.js";
import { place } from "../../router.js";
import { iso } from "../../time.js";
import { called, incidentsOf, tokensOf } from "./share.js";
import { stackedUsage } from "./stack.js";

const calls = (value, isTick) => (isTick ? (Number.isInteger(value) ? compact(value) : "") : counted(value, "call"));
const tokenWords = (value, isTick) => (isTick ? compact(value) : tokens(value));
const COST = { title: "Cost", of: (one) => one.cost_usd, words: dollars, least: 0.0001 };
const TOKENS = { title: "Tokens", of: tokensOf, words: tokenWords, least: 10 };
const MEASURES = {
  cost: COST,
  refused: { title: "Refused calls", of: (one) => one.refused, words: calls, least: 4 },
  calls: { title: "Calls", of: (one) => one.calls, words: calls, least: 4 },
  tokens: TOKENS,
  burn: TOKENS,
};

/** `report` is the answer of `GET /spending`; its series has the rows with the highest cost, and no sessions. */
export function Course({ report, by, order, name, since, until, range }) {
  const chosen = name === undefined ? null : report.rows.find((row) => row.name === name);
  const series = report.series ?? [];
  const own = chosen ? series.filter((point) => point.name === chosen.name) : series;
  const isUnpriced = order === "cost" && own.length > 0 && own.every((point) => point.cost_usd === null);
  const measure = isUnpriced ? TOKENS : MEASURES[order];
  const { points, bands } = useMemo(
    () => stackedUsage(own, { since, until, step: range.step, of: measure.of, called: (one) => (one === undefined ? "all" : called(by, one)) }),
    [report, name, measure, by],
  );
  const whole = points.reduce((sum, { values }) => sum + Object.values(values).reduce((some, one) => some + one, 0), 0);
  const isUntold = chosen && !own.length;
  const whose = chosen ? called(by, chosen.name) : by === "session" ? "all" : `by ${by}`;
  return html`
    <section class="card" aria-labelledby="course">
      <h2 id="course">${measure.title} over time: ${whose} <span class="quiet">${range.words}</span></h2>
      ${isUnpriced && html`<p class="quiet">These calls have no price, so the chart shows their tokens.</p>`}
      ${isUntold
        ? html`<p class="quiet">${by === "session" ? "There is no chart over time for a session." : "There is a chart over time only for the ten that cost most."}</p>`
        : html`<${StackedChart} points=${points} bands=${bands} step=${range.step} words=${measure.words} least=${measure.least} summary=${`${measure.title} of ${chosen ? whose : "all"} in the ${range.words}: ${measure.words(whole)} in total.`} caption=${`${measure.title} over time`} />`}
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
