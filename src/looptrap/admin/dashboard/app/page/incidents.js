// The list of incidents, with filters; or groups of them.

import { download } from "../api.js";
import { html, useCallback, useEffect, useMemo, useState } from "../html.js";
import { useEvent } from "../live.js";
import { useLoaded, useThrottled } from "../loaded.js";
import { counted, dollars } from "../number.js";
import { usePaged } from "../paged.js";
import { Segments } from "../part/segments.js";
import { Empty, Failed, Loading } from "../part/state.js";
import { More, Table } from "../part/table.js";
import { say } from "../part/toast.js";
import { href, refine } from "../router.js";
import { iso, now } from "../time.js";
import { Bulk } from "./incidents/bulk.js";
import { columnsOf } from "./incidents/column.js";
import { apiQuery, IncidentFilters, isFiltered, matches } from "./incidents/filter.js";
import { GROUPINGS, Groups } from "./incidents/groups.js";

const PAGE_SIZE = 100;
const REFRESH_MS = 5_000;
const ORDERS = { newest: "newest", cost: "cost", count: "how often", saved: "saved" };

export default function Incidents({ query }) {
  // Only when the address changes: a list that slides with time would lose its pages.
  const filters = useMemo(() => apiQuery(query), [JSON.stringify(query)]);
  const group = GROUPINGS.some((one) => one.name === query.group) ? query.group : "";
  const order = query.order in ORDERS ? query.order : "newest";
  const [chosen, setChosen] = useState([]);
  const [turn, setTurn] = useState(0);
  const shown = JSON.stringify([filters, group, order]);
  // Boxes keep their own state: a selection that is dropped needs new ones.
  const [round, setRound] = useState(0);
  useEffect(() => {
    setChosen([]);
    if (chosen.length) setRound(round + 1);
  }, [shown, turn]);
  const none = html`<${None} query=${query} />`;
  return html`
    <div class="page-head"><h1 tabIndex="-1">Incidents</h1></div>
    <${IncidentFilters} query=${query} />
    <div class="toolbar">
      <span class="inline-field"><span aria-hidden="true">Group by</span><${Segments} label="Group by" choices=${GROUPINGS} current=${group} to=${(name) => href("/incidents", { ...query, group: name })} /></span>
      <label class="inline-field"><span>Sort by</span>
        <select value=${order} onChange=${(event) => refine({ order: event.currentTarget.value })}>
          ${Object.entries(ORDERS).map(([name, words]) => html`<option key=${name} value=${name}>${words}</option>`)}
        </select>
      </label>
    </div>
    <${Summary} filters=${filters} order=${order} chosen=${chosen} turn=${turn} onDone=${() => setTurn(turn + 1)} />
    ${group
      ? html`<${Groups} key=${turn} query=${query} filters=${filters} group=${group} order=${order} none=${none} />`
      : html`<${List} key=${turn} filters=${filters} order=${order} round=${round} onChoose=${setChosen} none=${none} />`}
  `;
}

/** All that match: their number and sums, and what can be done with them. */
function Summary({ filters, order, chosen, turn, onDone }) {
  const all = useLoaded("incidents", { ...filters, group: "all" });
  const freshen = useThrottled(all.reload, REFRESH_MS);
  useEvent("incident", freshen);
  useEffect(() => void (turn && all.reload()), [turn]);
  const total = all.isLoading ? null : all.value?.groups[0];
  if (!total) return null;
  const save = (form) => async () => {
    try {
      await download(`incidents/export.${form}`, { ...filters, order }, `incidents-${iso(now()).slice(0, 10)}.${form}`);
    } catch (error) {
      say(error.message, "refused");
    }
  };
  return html`
    <div class="toolbar between">
      <p class="facts">
        <span>${chosen.length ? html`<b>${counted(chosen.length, "incident")} selected</b> of ${counted(total.incidents, "incident")}` : html`<b>${counted(total.incidents, "incident")}</b>`}</span>
        <span>${counted(total.open, "is open", "are open")}</span>
        <span>${dollars(total.spent_usd)} spent</span>
        <span>${total.refused ? `${dollars(total.saved_usd)} saved` : ""}</span>
      </p>
      <div class="row">
        <${Bulk} chosen=${chosen} filters=${filters} onDone=${onDone} />
        <button type="button" class="button small" onClick=${save("csv")}>Export CSV</button>
        <button type="button" class="button small" onClick=${save("json")}>Export JSON</button>
      </div>
    </div>
  `;
}

function List({ filters, order, round, onChoose, none }) {
  const list = usePaged("incidents", { ...filters, order }, "incidents", { limit: PAGE_SIZE, keyOf: (one) => one.id });
  useEvent("incident", (incident) => list.update((rows) => withEvent(rows, incident, filters, order)));
  const choose = useCallback((id, isChosen) => onChoose((before) => (isChosen ? [...before, id] : before.filter((one) => one !== id))), [onChoose]);
  const columns = useMemo(() => columnsOf(choose), [choose]);
  const { next, error } = list;
  const incidents = list.rows ?? [];
  const isLoading = list.isLoading || (!list.rows && !error);
  return html`
    ${error && html`<${Failed} error=${error} what="The incidents" onRetry=${list.reload} />`}
    ${isLoading && !incidents.length && html`<${Loading} lines=${10} />`}
    ${!isLoading && !error && !incidents.length && none}
    ${incidents.length > 0 && html`
      <div class="card flush" aria-busy=${isLoading}>
        <${Table} key=${round} caption="Incidents" columns=${columns} rows=${incidents} keyOf=${(one) => one.id} />
        <${More} shown=${incidents.length} noun="incident" hasMore=${Boolean(next)} isBusy=${list.isGoingOn} onMore=${list.goOn} />
      </div>
    `}
  `;
}

function None({ query }) {
  if (isFiltered(query)) {
    return html`<${Empty} title="No incident matches these filters."><a href=${href("/incidents", { state: "all" })}>Show all incidents</a><//>`;
  }
  return html`<${Empty} isCalm title="Nothing is looping."><a href=${href("/incidents", { state: "all" })}>Show past incidents</a><//>`;
}

/** The rows after an event: a known incident is updated, a new one added if the filters match. */
function withEvent(rows, incident, filters, order) {
  if (rows.some((one) => one.id === incident.id)) {
    return rows.map((one) => (one.id === incident.id ? { ...one, ...incident } : one));
  }
  return order === "newest" && matches(incident, filters) ? [incident, ...rows] : rows;
}
