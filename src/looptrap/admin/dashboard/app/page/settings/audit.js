// Who changed what, the latest first: every write through the admin API.

import { html } from "../../html.js";
import { useEvent } from "../../live.js";
import { useObserved } from "../../observed.js";
import { linkTo } from "../../pages.js";
import { usePaged } from "../../paged.js";
import { Moment } from "../../part/moment.js";
import { Empty, Loaded } from "../../part/state.js";
import { More, Table } from "../../part/table.js";
import { status } from "../../status.js";
import { RunTime } from "./run_time.js";

export function Audit() {
  const list = usePaged("audit", {}, "entries");
  const you = useObserved(status)?.operator;
  useEvent("change", list.reload);
  return html`
    <${RunTime} />
    <section class="card flush" aria-labelledby="changes">
      <div class="card-head"><h2 id="changes">Changes <span class="quiet">made at the admin address, the latest first${you ? `; yours as ${you}` : ""}</span></h2></div>
      <${Loaded} of=${list} lines=${8} what="The changes">
        ${(entries) => (entries.length
          ? html`
            <${Table} caption="Changes, the latest first" columns=${COLUMNS} rows=${entries} keyOf=${(one) => one.id ?? `${one.time} ${one.what} ${one.target}`} />
            <${More} shown=${entries.length} noun="change" hasMore=${Boolean(list.next)} isBusy=${list.isGoingOn} onMore=${list.goOn} />
          `
          : html`<${Empty} isCalm title="Nothing has been changed yet." />`)}
      <//>
    </section>
  `;
}

const WHAT = {
  "project.put": "Project set",
  "project.delete": "Project reset to the file",
  "tool.put": "Tool set",
  "tool.delete": "Tool reset to the file",
  "rule.put": "Rule changed",
  "rule.delete": "Rule reset to the file",
  "budget.put": "Limit of a budget set",
  "budget.delete": "Limit of a budget reset to the file",
  "key.add": "Key made",
  "key.rotate": "Key rotated",
  "key.revoke": "Key revoked",
  "kill_switch.set": "Kill switch set",
  "kill_switch.end": "Kill switch ended",
  "cooldown.extend": "Cooldown extended",
  release: "Released",
  "incident.acknowledge": "Acknowledged",
  "incident.close": "Closed",
  "incident.note": "Note written",
  "incident.label": "Incident labelled",
  "alert.test": "Test alert sent",
  "alert.resend": "Alerts sent again",
};

const COLUMNS = [
  { title: "When", render: (one) => html`<${Moment} at=${one.time} isExact />` },
  { title: "Who", render: (one) => html`${one.by}${one.source ? html` <span class="quiet">${one.source}</span>` : ""}` },
  { title: "What", render: (one) => WHAT[one.what] ?? one.what },
  { title: "Target", isName: true, render: (one) => html`<${Target} entry=${one} />` },
  { title: "Before → after", isWide: true, render: (one) => html`<${Difference} before=${one.before} after=${one.after} />` },
];

function Target({ entry }) {
  const { what, target } = entry;
  const link = {
    project: linkTo("settings", { project: target }),
    tool: linkTo("settings", { part: "tools" }),
    rule: linkTo("settings", { part: "policies", rule: target }),
    budget: linkTo("settings", { part: "budgets" }),
    key: linkTo("settings", { part: "keys" }),
    alert: linkTo("alerts"),
    kill: linkTo("status"),
  }[what.split(/[._]/)[0]];
  const found = String(target ?? "").startsWith("inc_") ? linkTo("incident", {}, { id: target }) : link;
  return found ? html`<a href=${found}>${target || "all"}</a>` : target || "–";
}

/** Only what differs, a line each; a value that is not a table is shown whole. */
function Difference({ before, after }) {
  if (isNothing(before) && isNothing(after)) return "–";
  if (![before, after].every((one) => isNothing(one) || isTable(one))) return html`${words(before)} → ${words(after)}`;
  const names = [...new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})])];
  const changed = names.filter((name) => words(before?.[name]) !== words(after?.[name]));
  if (!changed.length) return html`<span class="quiet">the same as before</span>`;
  return html`<ul>${changed.map((name) => html`<li key=${name}><span class="quiet">${name}</span> ${isNothing(before) ? "" : `${words(before?.[name])} → `}${words(after?.[name])}</li>`)}</ul>`;
}

function isTable(value) {
  return typeof value === "object" && !Array.isArray(value);
}

function isNothing(value) {
  return value === null || value === undefined;
}

function words(value) {
  if (isNothing(value)) return "–";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}
