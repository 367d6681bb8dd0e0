// The filters of the log of calls, kept in the address so that a view can be shared.

import { html } from "../../html.js";
import { Choice, Filters, Typed } from "../../part/filter.js";
import { TimeRange } from "../../part/time_range.js";
import { refine } from "../../router.js";

const NAMES = ["caller", "session", "agent", "model", "provider", "rule", "verdict", "status", "min_cost_usd", "min_latency", "project", "request_id"];
const TYPED = { caller: "Caller", session: "Session", agent: "Agent", model: "Model", provider: "Provider", rule: "Rule" };
const RANGES = { "15m": "last 15 min", "1h": "last hour", "24h": "last 24 h", "7d": "last 7 days" };
const VERDICTS = { "": "any", allow: "allowed", refused: "refused", warn: "warned", throttle: "throttled", nudge: "nudged", shadow: "shadow only" };
const STATUSES = { "": "any", "2xx": "2xx", "4xx": "4xx", 429: "429", "5xx": "5xx" };
const COSTS = { "": "any", 0.01: "from $0.01", 0.1: "from $0.10", 1: "from $1", 10: "from $10" };
const LATENCIES = { "": "any", 1: "from 1 s", 5: "from 5 s", 15: "from 15 s", 60: "from 1 min" };

/** Return the filters of the API from the parameters of the address. */
export function apiFilters(query) {
  return Object.fromEntries(NAMES.map((name) => [name, query[name]]).filter(([, value]) => value));
}

export function CallFilters({ query }) {
  return html`
    <${Filters} query=${query} names=${NAMES}>
      ${Object.entries(TYPED).map(([name, words]) => html`
        <label key=${name}><span>${words}</span><${Typed} name=${name} type="text" value=${query[name]} placeholder="any" /></label>
      `)}
      <${Choice} name="verdict" label="Verdict" value=${query.verdict ?? ""} choices=${withCurrent(VERDICTS, query.verdict)} />
      <${Choice} name="status" label="Status" value=${query.status ?? ""} choices=${withCurrent(STATUSES, query.status)} />
      <${Choice} name="min_cost_usd" label="Cost" value=${query.min_cost_usd ?? ""} choices=${withCurrent(COSTS, query.min_cost_usd)} />
      <${Choice} name="min_latency" label="Latency" value=${query.min_latency ?? ""} choices=${withCurrent(LATENCIES, query.min_latency)} />
      <${TimeRange} query=${query} choices=${RANGES} fallback="1h" />
      <div class="chips">
        ${["project", "request_id"].filter((name) => query[name]).map((name) => html`
          <button type="button" key=${name} class="chip" onClick=${() => refine({ [name]: "" })}>
            ${name.replace("_", " ")} ${query[name]} <span aria-hidden="true">×</span><span class="unseen">remove</span>
          </button>
        `)}
      </div>
    <//>
  `;
}

/** A value that the address has and the list has not is a choice too. */
function withCurrent(choices, value) {
  return !value || value in choices ? choices : { ...choices, [value]: value };
}
