// One session of a caller: its calls from the first to the latest, cost, incidents, budgets and kill switches.

import { html, useEffect } from "../html.js";
import { compact, count, counted, dollars, NONE } from "../number.js";
import { linkTo } from "../pages.js";
import { VerdictChart } from "../part/chart.js";
import { Figure } from "../part/figure.js";
import { targetsOf } from "../part/kill_switch.js";
import { Moment } from "../part/moment.js";
import { Empty, Loaded } from "../part/state.js";
import { callerPage } from "../part/who.js";
import { title } from "../title.js";
import { iso, span } from "../time.js";
import { Budgets } from "./callers/budgets.js";
import { stepOf } from "./callers/stack.js";
import { Incidents, LatestCalls, useFresh } from "./caller/part.js";
import { summary } from "./calls.js";
import { KillSwitches } from "./status/kill_switches.js";

const MIN_SECONDS = 900; // of the chart
const KEPT_SECONDS = 8 * 86_400; // a day more than sessions are kept

export default function SessionPage({ caller, session }) {
  // Whole days, so that the question stays the same.
  const since = iso(Math.floor(Date.now() / 86_400_000) * 86_400_000 - KEPT_SECONDS * 1000);
  const spending = useFresh("spending", { by: "session", caller, session, since }, ["stats"]);
  const whose = { caller, session };
  useEffect(() => title.set(session), [session]);
  return html`
    <div class="page-head">
      <div>
        <p class="crumb quiet"><a href=${linkTo("callers", { by: "session" })}>Sessions</a> <span aria-hidden="true">/</span> <a href=${callerPage(caller)}>${caller}</a></p>
        <h1 tabIndex="-1">${session}</h1>
      </div>
    </div>
    <${Loaded} of=${spending} lines=${8} what="The session">
      ${(value) => (value.rows.length
        ? html`<${Figures} row=${value.rows[0]} whose=${whose} /><${OverTime} row=${value.rows[0]} whose=${whose} />`
        : html`<${Unknown} caller=${caller} />`)}
    <//>
    <div class="columns">
      <div>
        <${Incidents} whose=${whose} />
        <${LatestCalls} whose=${whose} />
      </div>
      <div>
        <${KillSwitches} targets=${targetsOf(whose)} />
        <${Budgets} whose=${whose} />
      </div>
    </div>
  `;
}

function Figures({ row, whose }) {
  const calls = (more) => linkTo("calls", { ...whose, range: "7d", ...more });
  const lasted = (Date.parse(row.last) - Date.parse(row.first)) / 1000;
  return html`
    <dl class="figures">
      <${Figure} name="Calls" value=${compact(row.calls)} href=${calls()} />
      <${Figure} name="Refused" value=${count(row.refused)} href=${calls({ verdict: "refused" })} />
      <${Figure} name="Tokens" value=${compact(row.tokens)} note=${row.burn ? `${compact(row.burn)} a minute now` : "idle"} />
      <${Figure} name="Cost" value=${row.calls > row.refused ? dollars(row.cost_usd) : NONE} note=${row.unpriced ? `${counted(row.unpriced, "call")} unpriced` : ""} />
      <${Figure} name="Lasted" value=${span(lasted)} note=${html`last call <${Moment} at=${row.last} />`} />
      <${Figure} name="Model" value=${html`<span class="figure-name">${row.model || NONE}</span>`} note=${row.project && `project ${row.project}`} />
    </dl>
  `;
}

/** The chart is made from the log: spending by the minute has no sessions. */
function OverTime({ row, whose }) {
  const last = Date.parse(row.last);
  const since = Math.min(Date.parse(row.first), last - MIN_SECONDS * 1000);
  const step = stepOf((last - since) / 1000, 0);
  const series = useFresh("calls/series", { ...whose, since: iso(since), until: iso(last + step * 1000), step }, ["calls"]);
  return html`
    <${Loaded} of=${series} lines=${5} what="The chart">
      ${(value) => html`
        <section class="card" aria-labelledby="over-time">
          <h2 id="over-time">Calls by verdict <span class="quiet">in the log: ${summary(value.series)}</span></h2>
          <${VerdictChart} series=${value.series} step=${value.step} summary=${summary(value.series)} />
        </section>
      `}
    <//>
  `;
}

function Unknown({ caller }) {
  return html`
    <${Empty} title="There are no figures of this session.">
      <p>They are kept for 7 days after its last call. Single questions, without a session that the client names, are not counted by session.</p>
      <p><a href=${callerPage(caller)}>All that is known of its caller</a></p>
    <//>
  `;
}
