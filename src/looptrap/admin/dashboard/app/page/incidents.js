// Incidents: all there are, found by what is known of them.

import { get } from "../api.js";
import { html, useCallback, useEffect, useRef, useState } from "../html.js";
import { useHeard } from "../live.js";
import { Empty, Failed, Loading } from "../part/state.js";
import { More, Table } from "../part/table.js";
import { href } from "../router.js";
import { COLUMNS } from "./incidents/column.js";
import { asked, Filters, isFiltered, matches } from "./incidents/filter.js";

const PAGE = 100;

export default function Incidents({ query }) {
  const wanted = asked(query);
  const list = useList(wanted);
  const { incidents, next, error, isLoading } = list;
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

/** The incidents that are wanted, page by page, kept true by what is heard of them. */
function useList(wanted) {
  const key = JSON.stringify(wanted);
  const blank = { incidents: [], next: null, error: null, isLoading: true, isGoingOn: false };
  const [list, setList] = useState(blank);
  const turn = useRef(0);

  const reload = useCallback(async () => {
    const mine = ++turn.current;
    setList((before) => ({ ...before, isLoading: true }));
    const found = await get("incidents", { ...wanted, limit: PAGE }).catch((error) => ({ error }));
    if (mine === turn.current) setList({ ...blank, ...found, isLoading: false });
  }, [key]);

  const goOn = async () => {
    const mine = turn.current;
    setList((before) => ({ ...before, isGoingOn: true }));
    const found = await get("incidents", { ...wanted, limit: PAGE, cursor: list.next }).catch((error) => ({ error }));
    if (mine !== turn.current) return;
    setList((before) => ({
      ...before,
      isGoingOn: false,
      error: found.error ?? null,
      next: found.error ? before.next : found.next,
      incidents: merged(before.incidents, found.incidents ?? []),
    }));
  };

  useEffect(() => {
    reload();
    return () => {
      turn.current += 1;
    };
  }, [reload]);
  useHeard("resumed", reload);
  useHeard("incident", (incident) => {
    setList((before) => {
      const others = before.incidents.filter((one) => one.id !== incident.id);
      if (others.length < before.incidents.length) {
        return { ...before, incidents: before.incidents.map((one) => (one.id === incident.id ? { ...one, ...incident } : one)) };
      }
      return matches(incident, wanted) ? { ...before, incidents: [incident, ...others] } : before;
    });
  });
  return { ...list, reload, goOn };
}

function merged(known, more) {
  const ids = new Set(known.map((one) => one.id));
  return [...known, ...more.filter((one) => !ids.has(one.id))];
}
