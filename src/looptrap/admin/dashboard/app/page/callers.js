// Usage and cost by caller, project, session or model, and the budgets.

import { html, useMemo, useState } from "../html.js";
import { useEvent } from "../live.js";
import { useLoaded, useThrottled } from "../loaded.js";
import { useObserved } from "../observed.js";
import { linkTo } from "../pages.js";
import { Segments } from "../part/segments.js";
import { Empty, Loaded } from "../part/state.js";
import { RangeFields } from "../part/time_range.js";
import { beginOf, useSince } from "../range.js";
import { refine } from "../router.js";
import { status } from "../status.js";
import { brief, iso, now } from "../time.js";
import { Budgets } from "./callers/budgets.js";
import { Course } from "./callers/course.js";
import { Shares } from "./callers/shares.js";
import { stepOf, utcOffset } from "./callers/stack.js";

const RANGES = [
  { name: "1h", title: "1 h", words: "last hour", seconds: 3_600, step: 60 },
  { name: "24h", title: "24 h", words: "last 24 hours", seconds: 86_400, step: 1_800 },
  { name: "7d", title: "7 d", words: "last 7 days", seconds: 604_800, step: 10_800 },
  { name: "30d", title: "30 d", words: "last 30 days", seconds: 2_592_000, step: 86_400 },
];
const CUSTOM = { name: "custom", title: "Custom" };
const DAY_MS = 86_400_000;
const BY = [
  { name: "caller", title: "Callers" },
  { name: "project", title: "Projects" },
  { name: "session", title: "Sessions" },
  { name: "model", title: "Models" },
];
const VIEWS = [...BY, { name: "budgets", title: "Budgets" }];
const ORDERS = { cost: "cost", refused: "refused calls", calls: "calls", tokens: "tokens", burn: "tokens a minute" };
const PAGES = [25, 100, 500];
const REFRESH_MS = 5_000;

export default function Callers({ query }) {
  const range = useRange(query);
  const keep = (changed) => linkTo("callers", { ...query, name: "", ...changed });
  const isOfBudgets = query.by === "budgets";
  return html`
    <div class="page-head">
      <h1 tabIndex="-1">Callers and sessions</h1>
      ${!isOfBudgets && html`<${Segments} label="Time range" choices=${[...RANGES, CUSTOM]} current=${range.name} to=${(name) => keep(name === CUSTOM.name ? { range: name, since: query.since || beginOf(range.name) } : { range: name, since: "", until: "" })} />`}
    </div>
    <div class="toolbar">
      <${Segments} label="Group by" choices=${VIEWS} current=${isOfBudgets ? "budgets" : byOf(query)} to=${(name) => keep({ by: name })} />
      ${!isOfBudgets && html`<${Order} query=${query} />`}
      ${!isOfBudgets && range.name === CUSTOM.name && html`<${RangeFields} query=${query} />`}
    </div>
    ${isOfBudgets ? html`<${Budgets} />` : html`<${Spending} query=${query} range=${range} />`}
  `;
}

function Order({ query }) {
  return html`
    <label class="inline-field"><span>Sort by</span>
      <select value=${orderOf(query)} onChange=${(event) => refine({ order: event.currentTarget.value })}>
        ${Object.entries(ORDERS).map(([name, words]) => html`<option key=${name} value=${name}>${words}</option>`)}
      </select>
    </label>
  `;
}

function Spending({ query, range }) {
  const by = byOf(query);
  const order = orderOf(query);
  const sliding = useSince(range);
  const since = range.since ?? sliding;
  const until = range.until ?? now();
  const [limit, setLimit] = useState(PAGES[0]);
  const spending = useLoaded("spending", { by, order, limit, since: iso(since), until: range.until && iso(range.until), step: range.step, utc_offset: utcOffset() });
  const freshen = useThrottled(spending.reload, REFRESH_MS);
  for (const event of ["stats", "polled", "incident"]) useEvent(event, freshen);
  const goOn = () => setLimit(PAGES[PAGES.indexOf(limit) + 1]);
  return html`
    <${Loaded} of=${spending} lines=${10} what="The spending">
      ${(report) => (report.rows.length === 0
        ? html`<${None} range=${range} />`
        : html`
          <${Course} report=${report} by=${by} order=${order} name=${query.name} since=${since} until=${until} range=${range} />
          <${Shares} rows=${report.rows} by=${by} query=${query} since=${iso(since)} hasMore=${report.rows.length === limit && limit < PAGES.at(-1)} onMore=${goOn} onChange=${spending.reload} />
        `)}
    <//>
  `;
}

function byOf({ by }) {
  return BY.some((one) => one.name === by) ? by : BY[0].name;
}

function orderOf({ order }) {
  return order in ORDERS ? order : "cost";
}

function None({ range }) {
  const listen = useObserved(status)?.listen;
  return html`<${Empty} isCalm title=${`There were no calls${range.name === CUSTOM.name ? ` ${range.words}` : ` in the ${range.words}`}.`}>${listen ? html`The gateway listens at <code>${listen}</code>.` : ""}<//>`;
}

/** The range in the address: one of RANGES, or from one time, or to one, or both. */
function useRange({ range, since, until }) {
  return useMemo(() => {
    const [from, to] = [Date.parse(since), Date.parse(until)];
    if (range !== CUSTOM.name && !from && !to) return RANGES.find((one) => one.name === range) ?? RANGES[1];
    const end = to || now();
    const begin = from || end - DAY_MS;
    const step = stepOf((end - begin) / 1000, (now() - begin) / 1000);
    const words = to ? `from ${brief(begin)} to ${brief(end)}` : `since ${brief(begin)}`;
    return { name: CUSTOM.name, words, seconds: (end - begin) / 1000, step, since: begin, until: to || undefined };
  }, [range, since, until]);
}
