// Overview: is something looping, what does it cost, and is the gateway itself all right?

import { html, useMemo } from "../html.js";
import { useEvent } from "../live.js";
import { useLoaded, useThrottled } from "../loaded.js";
import { counted } from "../number.js";
import { useObserved } from "../observed.js";
import { bandsOf, VerdictChart } from "../part/chart.js";
import { Notices } from "../part/notice.js";
import { Segments } from "../part/segments.js";
import { Loaded } from "../part/state.js";
import { useSince } from "../range.js";
import { href } from "../router.js";
import { status } from "../status.js";
import { iso, now } from "../time.js";
import { FirstRun } from "./overview/first_run.js";
import { Figures } from "./overview/figures.js";
import { Looping } from "./overview/looping.js";
import { Providers } from "./overview/providers.js";

const RANGES = [
  { name: "15m", title: "15 min", words: "15 minutes", seconds: 900, step: 60 },
  { name: "1h", title: "1 h", words: "hour", seconds: 3_600, step: 60 },
  { name: "24h", title: "24 h", words: "24 hours", seconds: 86_400, step: 300 },
  { name: "7d", title: "7 d", words: "7 days", seconds: 604_800, step: 3_600 },
];
const REFRESH_MS = 2_000;

export default function Overview({ query }) {
  const range = RANGES.find((one) => one.name === query.range) ?? RANGES[1];
  const current = useObserved(status);
  const since = useSince(range);
  const stats = useLoaded("stats", { since: iso(since), step: range.step });
  const freshen = useThrottled(stats.reload, range.step > 60 ? 5 * REFRESH_MS : REFRESH_MS);
  for (const event of ["stats", "incident", "polled"]) useEvent(event, freshen);
  const isFirstRun = useIsFirstRun(stats.value);
  return html`
    <div class="page-head">
      <h1 tabIndex="-1">Overview</h1>
      <${Segments} label="Time range" choices=${RANGES} current=${range.name} to=${(name) => href("/", { range: name })} />
    </div>
    <${Notices} notices=${current?.notices ?? []} />
    ${(!isFirstRun || current?.open_incidents > 0) && html`<${Looping} total=${current?.open_incidents} />`}
    ${isFirstRun && html`<${FirstRun} current=${current} />`}
    <${Loaded} of=${stats} lines=${8} what="The statistics">
      ${(value) => html`
        <${Figures} stats=${value} since=${iso(since)} />
        <section class="card" aria-labelledby="over-time">
          <h2 id="over-time">Requests by verdict <span class="quiet">last ${range.words}</span></h2>
          ${value.totals.calls === 0 && html`<p class="quiet">There were no requests in this time.</p>`}
          <${VerdictChart} series=${value.series} step=${range.step} summary=${summary(value, range)} />
        </section>
      `}
    <//>
    <${Providers} />
  `;
}

/** Whether no call has ever come through, as far as is known; a demo makes none. */
function useIsFirstRun(stats) {
  const isQuiet = stats !== null && stats.totals.calls === 0;
  const since = useMemo(() => iso(now() - 604_800_000), [isQuiet]);
  const week = useLoaded(isQuiet ? "stats" : null, { since, step: 86_400 });
  return isQuiet && week.value?.totals.calls === 0;
}

function summary({ totals }, range) {
  const { refused, warned, shadowed, passed } = bandsOf(totals);
  return `${counted(totals.calls, "request")} in the last ${range.words}: ${passed} allowed, ${warned} warned, ${shadowed} in shadow mode, ${refused} refused.`;
}
