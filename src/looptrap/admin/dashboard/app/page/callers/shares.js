// Usage by caller, project, session or model, the highest first; each row links to its chart and incidents.

import { act } from "../../act.js";
import { html, useMemo, useState } from "../../html.js";
import { compact, count, dollars, NONE, tokens } from "../../number.js";
import { useObserved } from "../../observed.js";
import { linkTo } from "../../pages.js";
import { Button } from "../../part/button.js";
import { KillSwitch } from "../../part/kill_switch.js";
import { Moment } from "../../part/moment.js";
import { More, Table } from "../../part/table.js";
import { callerPage, sessionPage } from "../../part/who.js";
import { status, whyReadOnly } from "../../status.js";
import { called, incidentsOf, stoppable, tokensOf } from "./share.js";

export function Shares({ rows, by, query, since, hasMore, onMore, onChange }) {
  const [stopping, setStopping] = useState(null);
  const reason = whyReadOnly(useObserved(status));
  const columns = useMemo(() => columnsOf({ by, query, since, reason, onStop: setStopping }), [by, query, since, reason]);
  return html`
    <div class="card flush">
      <${Table} caption=${`Usage by ${by}, the highest first`} columns=${columns} rows=${rows} keyOf=${(row) => `${row.caller ?? ""} ${row.project ?? ""} ${row.name}`} />
      <${More} shown=${rows.length} noun=${by} hasMore=${hasMore} onMore=${onMore} />
    </div>
    ${stopping && html`<${KillSwitch} targets=${stoppable(by, stopping)} done=${(request, words) => act(request, words, onChange)} onClose=${() => setStopping(null)} />`}
  `;
}

function columnsOf({ by, query, since, reason, onStop }) {
  const saved = { title: "Saved", isNumber: true, render: (row) => (row.refused ? dollars(row.saved_usd) : NONE) };
  return [
    { title: by[0].toUpperCase() + by.slice(1), isWide: true, render: (row) => html`<${Name} row=${row} by=${by} query=${query} />` },
    { title: "Calls", isNumber: true, render: (row) => count(row.calls) },
    { title: "Refused", isNumber: true, render: (row) => linked(row.refused, incidentsOf(by, row, { state: "all", since })) },
    { title: "Open incidents", isNumber: true, render: (row) => linked(row.incidents, incidentsOf(by, row)) },
    { title: "Tokens", isNumber: true, render: (row) => html`<span title=${count(tokensOf(row))}>${compact(tokensOf(row))}</span>` },
    { title: "Cost", isNumber: true, render: (row) => html`<${Cost} row=${row} />` },
    // Savings are recorded by the minute, not by session.
    ...(by === "session" ? [] : [saved]),
    { title: "Burn rate", isNumber: true, render: (row) => html`<${Burn} perMinute=${row.burn} />` },
    { title: "Last call", isNumber: true, render: (row) => html`<${Moment} at=${row.last} />` },
    { title: "Stop", isAction: true, render: (row) => html`<${Button} kind="small grave" why=${reason || (row.name ? "" : "A kill switch needs a name.")} about=${called(by, row.name)} onClick=${() => onStop(row)}>Stop …<//>` },
  ];
}

function Name({ row, by, query }) {
  const under = by === "session" ? [row.caller, row.project, row.model].filter(Boolean).join(" · ") : "";
  const isChosen = query.name === row.name;
  const own = { caller: callerPage(row.name), session: sessionPage(row.caller, row.name) }[by];
  return html`
    <a class="row-link" aria-current=${isChosen ? "true" : undefined} href=${own ?? linkTo("callers", { ...query, name: isChosen ? "" : row.name })}>${called(by, row.name)}</a>
    ${under && html`<span class="under quiet" title=${under}>${under}</span>`}
  `;
}

function Cost({ row }) {
  if (row.cost_usd === null || !row.unpriced) return dollars(row.cost_usd);
  return html`<span title=${`${count(row.unpriced)} calls have no price and are not included`}>${dollars(row.cost_usd)} <span class="quiet">+ unpriced</span></span>`;
}

function Burn({ perMinute }) {
  return perMinute < 1 ? html`<span class="quiet">idle</span>` : html`${tokens(perMinute)}/min`;
}

function linked(value, link) {
  if (value === undefined || value === null) return NONE;
  return link && value ? html`<a href=${link}>${count(value)}</a>` : count(value);
}
