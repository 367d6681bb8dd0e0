// The log of calls: a live tail with filters and a time range.

import { get } from "../api.js";
import { html, useEffect, useMemo, useState } from "../html.js";
import { useEvent } from "../live.js";
import { useLoaded, useThrottled } from "../loaded.js";
import { counted, dollars } from "../number.js";
import { linkTo } from "../pages.js";
import { usePaged } from "../paged.js";
import { VerdictChart } from "../part/chart.js";
import { Empty, Loaded } from "../part/state.js";
import { More, Table } from "../part/table.js";
import { RANGES } from "../range.js";
import { iso, now } from "../time.js";
import { stepOf } from "./callers/stack.js";
import { COLUMNS } from "./calls/column.js";
import { apiFilters, CallFilters } from "./calls/filter.js";

const PAGE_SIZE = 100;
const MAX_TAIL = 1_000;
const TAIL_MS = 1_000;
const CHART_MS = 5_000;

export default function Calls({ query }) {
  const range = RANGES.find((one) => one.name === query.range) ?? RANGES[1];
  const isCustom = Boolean(query.since || query.until);
  // Fixed while the range is, so that the list grows and is not loaded anew.
  const begun = useMemo(() => iso(now() - range.seconds * 1000), [range, isCustom]);
  const span = isCustom ? { since: query.since, until: query.until } : { since: begun };
  const filters = apiFilters(query);
  const [isPaused, setPaused] = useState(false);
  const list = usePaged("calls", { ...filters, ...span }, "calls", { limit: PAGE_SIZE, keyOf: (one) => one.id });
  const isLive = !isPaused && !query.until;
  useTail(list, { ...filters, ...span }, isLive);
  return html`
    <div class="page-head">
      <h1 tabIndex="-1">Calls</h1>
      <button type="button" class="button" aria-pressed=${isPaused} disabled=${Boolean(query.until)} onClick=${() => setPaused(!isPaused)}>${isPaused ? "Resume" : "Pause"}</button>
    </div>
    <${CallFilters} query=${query} />
    <${OverTime} filters=${filters} span=${span} isLive=${isLive} />
    <${Loaded} of=${list} lines=${12} what="The calls">
      ${(calls) => (calls.length
        ? html`
          <div class="card flush" aria-busy=${list.isLoading}>
            <${Table} caption="Calls, the latest first" columns=${COLUMNS} rows=${calls} keyOf=${(one) => one.id} />
            <${More} shown=${calls.length} noun="call" hasMore=${Boolean(list.next)} isBusy=${list.isGoingOn} onMore=${list.goOn} />
          </div>
        `
        : html`<${None} isLogging=${list.first?.is_logging !== false} hasFilters=${Object.keys(filters).length > 0} words=${isCustom ? "this time" : `the last ${range.words}`} />`)}
    <//>
  `;
}

/** Add calls to the list as they are logged. */
function useTail(list, query, isLive) {
  const extend = async () => {
    if (!isLive || !list.value) return;
    const after = Math.max(0, ...list.value.map((one) => one.id));
    const found = await get("calls", { ...query, after, limit: PAGE_SIZE }).catch(() => null);
    if (found?.next) await list.reload();
    else if (found?.calls.length) list.update((rows) => latestFirst(rows, found.calls));
  };
  const tail = useThrottled(extend, TAIL_MS);
  for (const event of ["calls", "polled"]) useEvent(event, tail);
  // What came while it was paused.
  useEffect(() => {
    if (isLive) tail();
  }, [isLive]);
}

function latestFirst(rows, more) {
  const known = new Set(rows.map((one) => one.id));
  const all = [...more.filter((one) => !known.has(one.id)), ...rows];
  return all.sort((one, other) => Date.parse(other.time) - Date.parse(one.time) || other.id - one.id).slice(0, Math.max(MAX_TAIL, rows.length));
}

function OverTime({ filters, span, isLive }) {
  const until = span.until ? Date.parse(span.until) : now();
  const seconds = Math.max(60, (until - (span.since ? Date.parse(span.since) : until - 86_400_000)) / 1000);
  const step = stepOf(seconds, 0);
  const series = useLoaded("calls/series", { ...filters, ...span, step });
  const freshen = useThrottled(series.reload, CHART_MS);
  for (const event of ["calls", "polled"]) useEvent(event, () => isLive && freshen());
  return html`
    <${Loaded} of=${series} lines=${5} what="The chart">
      ${(value) => html`
        <section class="card" aria-labelledby="over-time">
          <h2 id="over-time">Calls by verdict <span class="quiet">${summary(value.series)}</span></h2>
          <${VerdictChart} series=${value.series} step=${value.step} summary=${summary(value.series)} />
        </section>
      `}
    <//>
  `;
}

/** The calls of a series and their cost, in words. */
export function summary(series) {
  const sum = (of) => series.reduce((total, point) => total + (of(point) ?? 0), 0);
  const isUnpriced = series.some((point) => point.unpriced) && !sum((point) => point.cost_usd);
  return `${counted(sum((point) => point.calls), "call")}, ${counted(sum((point) => point.refused), "refused", "refused")}, ${isUnpriced ? "unpriced" : dollars(sum((point) => point.cost_usd))}`;
}

function None({ isLogging, hasFilters, words }) {
  if (!isLogging) return html`<${Empty} title="Calls are not logged.">To log them, without their texts, set <code>enabled = true</code> in <code>[call_log]</code> of the configuration file.<//>`;
  if (hasFilters) return html`<${Empty} title=${`No call of ${words} matches these filters.`}><a href=${linkTo("calls", { range: "7d" })}>Show all calls of the last 7 days</a><//>`;
  return html`<${Empty} isCalm title=${`There were no calls in ${words}.`}>New calls appear here by themselves.<//>`;
}
