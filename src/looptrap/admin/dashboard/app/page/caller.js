// One caller: its calls over time, what they cost, its incidents, budgets and kill switches.

import { html, useEffect } from "../html.js";
import { compact, count, counted, dollars, NONE } from "../number.js";
import { useLoaded } from "../loaded.js";
import { linkTo } from "../pages.js";
import { bandsOf, VerdictChart } from "../part/chart.js";
import { Figure } from "../part/figure.js";
import { targetsOf } from "../part/kill_switch.js";
import { Segments } from "../part/segments.js";
import { Empty, Loaded } from "../part/state.js";
import { callerPage } from "../part/who.js";
import { RANGES, useSince } from "../range.js";
import { title } from "../title.js";
import { iso } from "../time.js";
import { Budgets } from "./callers/budgets.js";
import { Incidents, LatestCalls, Shares, useFresh } from "./caller/part.js";
import { KillSwitches } from "./status/kill_switches.js";

const EVER_SECONDS = 90 * 86_400;

export default function CallerPage({ caller, query }) {
  const range = RANGES.find((one) => one.name === query.range) ?? RANGES[2];
  const since = iso(useSince(range));
  const stats = useFresh("stats", { caller, since, step: range.step }, ["stats"]);
  const isUnknown = useIsUnknown(caller, stats.value);
  useEffect(() => title.set(caller), [caller]);
  return html`
    <div class="page-head">
      <div>
        <p class="crumb quiet"><a href=${linkTo("callers")}>Callers</a> <span aria-hidden="true">/</span> caller</p>
        <h1 tabIndex="-1">${caller}</h1>
      </div>
      <${Segments} label="Time range" choices=${RANGES} current=${range.name} to=${(name) => callerPage(caller, { range: name })} />
    </div>
    ${isUnknown
      ? html`<${Unknown} />`
      : html`
        <${Loaded} of=${stats} lines=${8} what="The statistics">
          ${(value) => html`
            <${Figures} totals=${value.totals} caller=${caller} since=${since} range=${range} />
            <section class="card" aria-labelledby="over-time">
              <h2 id="over-time">Calls by verdict <span class="quiet">last ${range.words}</span></h2>
              <${VerdictChart} series=${value.series} step=${range.step} summary=${summary(value.totals, range)} />
            </section>
          `}
        <//>
      `}
    <div class="columns">
      <div>
        <${Incidents} whose=${{ caller }} />
        <${Shares} caller=${caller} by="session" since=${since} />
      </div>
      <div>
        <${KillSwitches} targets=${targetsOf({ caller })} />
        <${Budgets} whose=${{ caller }} />
        <${Shares} caller=${caller} by="model" since=${since} />
      </div>
    </div>
    <${LatestCalls} whose=${{ caller }} />
  `;
}

function Figures({ totals, caller, since, range }) {
  const calls = (more) => linkTo("calls", { caller, range: range.name, ...more });
  return html`
    <dl class="figures">
      <${Figure} name="Calls" value=${compact(totals.calls)} href=${calls()} />
      <${Figure} name="Refused" value=${count(totals.refused)} href=${calls({ verdict: "refused" })} />
      <${Figure} name="Warned" value=${count(totals.warned)} href=${linkTo("incidents", { state: "all", caller, since })} />
      <${Figure} name="Tokens" value=${compact(totals.input_tokens + totals.output_tokens)} note=${`${compact(totals.output_tokens)} out`} />
      <${Figure} name="Cost" value=${totals.calls ? dollars(totals.cost_usd) : NONE} note=${totals.unpriced ? `${counted(totals.unpriced, "call")} unpriced` : ""} />
      <${Figure} name="Saved" value=${totals.refused ? dollars(totals.saved_usd) : NONE} tone=${totals.saved_usd ? "saved" : ""} />
    </dl>
  `;
}

/** Whether no call of this caller is in the history. */
function useIsUnknown(caller, stats) {
  const isQuiet = stats?.totals.calls === 0;
  // Whole days, so that it is asked once.
  const since = iso(Math.floor(Date.now() / 86_400_000) * 86_400_000 - EVER_SECONDS * 1000);
  const ever = useLoaded(isQuiet ? "stats" : null, { caller, since, step: 86_400 });
  return isQuiet && ever.value?.totals.calls === 0;
}

function Unknown() {
  return html`
    <${Empty} title="No call of this caller is known.">
      <p>A caller is a gateway key (<code>key:ci</code>), a digest of a credential (<code>cred:…</code>), or an address (<code>addr:192.0.2.7</code>). Calls that are older than the history keeps are gone.</p>
      <p><a href=${linkTo("callers", { range: "7d" })}>All callers of the last 7 days</a></p>
    <//>
  `;
}

function summary(totals, range) {
  const { refused, warned, shadowed, passed } = bandsOf(totals);
  return `${counted(totals.calls, "call")} in the last ${range.words}: ${passed} allowed, ${warned} warned, ${shadowed} in shadow mode, ${refused} refused.`;
}
