// The filters of the list, kept in the address so that a view can be shared.

import { html, useEffect, useRef } from "../../html.js";
import { Choice, Filters, Typed } from "../../part/filter.js";
import { TimeRange } from "../../part/time_range.js";
import { beginOf } from "../../range.js";
import { refine } from "../../router.js";

const NAMES = ["state", "caller", "project", "session", "rule", "model", "label", "acknowledged", "q", "since", "until"];
const EXACT = ["caller", "project", "session", "rule", "model"];
const RANGES = { "": "any time", "1h": "last hour", "24h": "last 24 h", "7d": "last 7 days", "30d": "last 30 days" };

/** Return the filter of the API from the parameters of the address. */
export function apiQuery(query) {
  const given = Object.fromEntries(NAMES.map((name) => [name, query[name]]).filter(([, value]) => value));
  const since = beginOf(query.range);
  return { state: "open", ...(since && { since }), ...given };
}

export function isFiltered(query) {
  return NAMES.some((name) => query[name] && name !== "state") || Boolean(beginOf(query.range)) || query.state === "closed" || query.state === "all";
}

/** Whether an incident from an event matches the filters. */
export function matches(incident, filters) {
  const text = [incident.id, incident.caller, incident.session, incident.rule, incident.model].join(" ").toLowerCase();
  return (
    (filters.state === "all" || filters.state === incident.state) &&
    EXACT.every((name) => !filters[name] || filters[name] === incident[name]) &&
    (!filters.label || filters.label === incident.label) &&
    (!filters.acknowledged || filters.acknowledged === String(Boolean(incident.acknowledged))) &&
    (!filters.since || Date.parse(incident.last) >= Date.parse(filters.since)) &&
    (!filters.until || Date.parse(incident.opened) < Date.parse(filters.until)) &&
    (!filters.q || text.includes(filters.q.toLowerCase()))
  );
}

export function IncidentFilters({ query }) {
  const search = useRef(null);
  useEffect(() => {
    if (query.focus !== "search") return;
    search.current.focus();
    refine({ focus: "" });
  }, [query.focus]);
  return html`
    <${Filters} query=${query} names=${[...EXACT, "state", "label", "acknowledged"]}>
      <label class="grow"><span>Search</span>
        <${Typed} name="q" type="search" value=${query.q} field=${search} placeholder="caller, session, rule, model or id" /></label>
      <${Choice} name="state" label="State" value=${query.state ?? "open"} choices=${{ open: "open", closed: "closed", all: "all" }} />
      <${TimeRange} query=${query} choices=${RANGES} fallback="" />
      <${Choice} name="label" label="Label" value=${query.label ?? ""} choices=${{ "": "any", false_alarm: "false alarm", confirmed: "confirmed" }} />
      <${Choice} name="acknowledged" label="Acknowledged" value=${query.acknowledged ?? ""} choices=${{ "": "any", false: "no", true: "yes" }} />
      ${["caller", "project", "rule", "model"].map((name) => html`
        <label key=${name}><span>${name[0].toUpperCase() + name.slice(1)}</span><${Typed} name=${name} type="text" value=${query[name]} placeholder="any" /></label>
      `)}
      <div class="chips">
        ${query.session && html`
          <button type="button" class="chip" onClick=${() => refine({ session: "" })}>
            session ${query.session} <span aria-hidden="true">×</span><span class="unseen">remove</span>
          </button>
        `}
      </div>
    <//>
  `;
}
