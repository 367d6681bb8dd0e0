// Parts of the pages about a caller and about a session.

import { html } from "../../html.js";
import { useEvent } from "../../live.js";
import { useLoaded, useThrottled } from "../../loaded.js";
import { count, dollars } from "../../number.js";
import { linkTo } from "../../pages.js";
import { ActionBadge, StateBadges } from "../../part/badge.js";
import { Moment } from "../../part/moment.js";
import { Loaded } from "../../part/state.js";
import { Table } from "../../part/table.js";
import { sessionPage } from "../../part/who.js";
import { headline } from "../../wording.js";
import { COLUMNS_OF_CALLER, COLUMNS_OF_SESSION } from "../calls/column.js";

const SHOWN = 10;
const REFRESH_MS = 5_000;

const INCIDENT_COLUMNS = [
  { title: "What repeats", isWide: true, render: (one) => html`<a class="row-link" href=${linkTo("incident", {}, { id: one.id })}>${headline(one)}</a><span class="under quiet">${one.rule}</span>` },
  { title: "Action", render: (one) => html`<${ActionBadge} incident=${one} />` },
  { title: "State", render: (one) => html`<${StateBadges} incident=${one} />` },
  { title: "Last call", isNumber: true, render: (one) => html`<${Moment} at=${one.last} />` },
];

/** Load something, and again when one of these events comes. */
export function useFresh(path, query, events) {
  const loaded = useLoaded(path, query);
  const freshen = useThrottled(loaded.reload, REFRESH_MS);
  for (const event of [...events, "polled"]) useEvent(event, freshen);
  return loaded;
}

/** The latest incidents of a caller or session. */
export function Incidents({ whose }) {
  const incidents = useFresh("incidents", { ...whose, state: "all", limit: SHOWN }, ["incident"]);
  return html`<${List} id="incidents" title="Incidents" of=${incidents} rows=${(value) => value.incidents} columns=${INCIDENT_COLUMNS} none="There are no incidents." more=${linkTo("incidents", { ...whose, state: "all" })} />`;
}

/** The latest logged calls of a caller or session. */
export function LatestCalls({ whose }) {
  const calls = useFresh("calls", { ...whose, limit: SHOWN }, ["calls"]);
  return html`<${List} id="latest" title="Latest calls" of=${calls} rows=${(value) => value.calls} columns=${whose.session ? COLUMNS_OF_SESSION : COLUMNS_OF_CALLER} none=${calls.value?.is_logging === false ? "Calls are not logged." : "No call is in the log."} more=${linkTo("calls", { ...whose, range: "7d" })} />`;
}

/** What a caller used, by model or by session. */
export function Shares({ caller, by, since }) {
  const spending = useFresh("spending", { by, caller, since, limit: SHOWN }, ["stats"]);
  const columns = [
    { title: by === "model" ? "Model" : "Session", isName: true, render: (row) => nameOf(by, caller, row) },
    { title: "Calls", isNumber: true, render: (row) => count(row.calls) },
    { title: "Cost", isNumber: true, render: (row) => dollars(row.cost_usd) },
  ];
  return html`<${List} id=${by} title=${by === "model" ? "Models" : "Sessions"} of=${spending} rows=${(value) => value.rows} columns=${columns} none=${`No ${by} was used.`} />`;
}

function nameOf(by, caller, row) {
  const link = by === "model" ? linkTo("calls", { caller, model: row.name, range: "24h" }) : sessionPage(caller, row.name);
  return row.name ? html`<a class="row-link" href=${link}>${row.name}</a>` : "no model";
}

function List({ id, title, of, rows, columns, none, more }) {
  return html`
    <section class="card flush" aria-labelledby=${id}>
      <div class="card-head"><h2 id=${id}>${title}</h2>${more && html`<a href=${more}>All<span class="unseen"> of ${title.toLowerCase()}</span></a>`}</div>
      <${Loaded} of=${of} lines=${4} what=${title}>
        ${(value) => (rows(value).length
          ? html`<${Table} caption=${title} columns=${columns} rows=${rows(value)} keyOf=${(one) => one.id ?? one.name} />`
          : html`<p class="none quiet">${none}</p>`)}
      <//>
    </section>
  `;
}
