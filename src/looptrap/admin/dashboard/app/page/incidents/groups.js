// Incidents grouped by caller, rule or model: a row has their sums, and opens them.

import { html } from "../../html.js";
import { useEvent } from "../../live.js";
import { useThrottled } from "../../loaded.js";
import { count, counted, dollars, NONE } from "../../number.js";
import { linkTo } from "../../pages.js";
import { usePaged } from "../../paged.js";
import { Moment } from "../../part/moment.js";
import { Loaded } from "../../part/state.js";
import { More, Table } from "../../part/table.js";
import { brief, span } from "../../time.js";

const REFRESH_MS = 5_000;

export const GROUPINGS = [
  { name: "", title: "None" },
  { name: "caller", title: "Caller" },
  { name: "rule", title: "Rule" },
  { name: "model", title: "Model" },
  { name: "caller,rule,model", title: "All three" },
];

export function Groups({ query, filters, group, order, none }) {
  const list = usePaged("incidents", { ...filters, group, order }, "groups", { limit: 100, keyOf });
  const freshen = useThrottled(list.reload, REFRESH_MS);
  useEvent("incident", freshen);
  return html`
    <${Loaded} of=${list} lines=${8} what="The groups">
      ${(groups) => (groups.length === 0
        ? none
        : html`
          <div class="card flush">
            <${Table} caption=${`Incidents by ${group.replaceAll(",", ", ")}`} columns=${columnsOf(query)} rows=${groups} keyOf=${keyOf} />
            <${More} shown=${groups.length} noun="group" hasMore=${Boolean(list.next)} isBusy=${list.isGoingOn} onMore=${list.goOn} />
          </div>
        `)}
    <//>
  `;
}

function keyOf(one) {
  return JSON.stringify(one.by);
}

function columnsOf(query) {
  return [
    { title: "Group", isWide: true, render: (one) => html`<${Name} one=${one} query=${query} />` },
    { title: "Incidents", isNumber: true, render: (one) => count(one.incidents) },
    { title: "Open", isNumber: true, render: (one) => (one.open ? html`<b>${count(one.open)}</b>` : "0") },
    { title: "Calls", isNumber: true, render: (one) => count(one.hits) },
    { title: "Refused", isNumber: true, render: (one) => count(one.refused) },
    { title: "Spent", isNumber: true, render: (one) => dollars(one.spent_usd) },
    { title: "Saved", isNumber: true, render: (one) => (one.refused ? dollars(one.saved_usd) : NONE) },
    { title: "Span", isNumber: true, render: (one) => html`<span title=${`${brief(one.opened)} to ${brief(one.last)}`}>${span((Date.parse(one.last) - Date.parse(one.opened)) / 1000)}</span>` },
    { title: "Last call", isNumber: true, render: (one) => html`<${Moment} at=${one.last} />` },
  ];
}

/** The names of a group, as a link to its incidents; no filter finds those without a name. */
function Name({ one, query }) {
  const names = Object.entries(one.by);
  const words = names.map(([name, value]) => value || `no ${name}`);
  const link = names.every(([, value]) => value) && linkTo("incidents", { ...query, ...one.by, group: "" });
  return html`
    ${link ? html`<a class="row-link" href=${link}>${words[0]}</a>` : words[0]}
    <span class="under quiet">${[...words.slice(1), "caller" in one.by ? "" : counted(one.callers, "caller")].filter(Boolean).join(" · ")}</span>
  `;
}
