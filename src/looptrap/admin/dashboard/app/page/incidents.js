// The list of incidents, with filters.

import { html } from "../html.js";
import { useEvent } from "../live.js";
import { usePaged } from "../paged.js";
import { Empty, Failed, Loading } from "../part/state.js";
import { More, Table } from "../part/table.js";
import { href } from "../router.js";
import { COLUMNS } from "./incidents/column.js";
import { apiQuery, Filters, isFiltered, matches } from "./incidents/filter.js";

const PAGE_SIZE = 100;

export default function Incidents({ query }) {
  const filters = apiQuery(query);
  const list = usePaged("incidents", filters, "incidents", { limit: PAGE_SIZE, keyOf: (one) => one.id });
  useEvent("incident", (incident) => list.update((rows) => withEvent(rows, incident, filters)));
  const { next, error } = list;
  const incidents = list.rows ?? [];
  const isLoading = list.isLoading || (!list.rows && !error);
  return html`
    <div class="page-head"><h1 tabIndex="-1">Incidents</h1></div>
    <${Filters} query=${query} />
    ${error && html`<${Failed} error=${error} what="The incidents" onRetry=${list.reload} />`}
    ${isLoading && !incidents.length && html`<${Loading} lines=${10} />`}
    ${!isLoading && !error && !incidents.length && html`<${None} query=${query} />`}
    ${incidents.length > 0 && html`
      <div class="card flush" aria-busy=${isLoading}>
        <${Table} caption="Incidents, the latest call first" columns=${COLUMNS} rows=${incidents} keyOf=${(one) => one.id} />
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
function withEvent(rows, incident, filters) {
  if (rows.some((one) => one.id === incident.id)) {
    return rows.map((one) => (one.id === incident.id ? { ...one, ...incident } : one));
  }
  return matches(incident, filters) ? [incident, ...rows] : rows;
}
