// The settings in effect and the draft on the same captured calls, and the command that prints the numbers.

import { html } from "../../html.js";
import { compact, count, counted, NONE } from "../../number.js";
import { ActionBadge, Badge } from "../../part/badge.js";
import { Copyable, CopyButton } from "../../part/copy.js";
import { Moment } from "../../part/moment.js";
import { Table } from "../../part/table.js";

const ROWS = [
  { name: "refused_runs", title: "Runs refused" },
  { name: "warned_runs", title: "Runs warned" },
  { name: "flagged_runs", title: "Runs in which a rule acted" },
  { name: "saved_calls", title: "Calls not made" },
  { name: "saved_tokens", title: "Tokens not used" },
];

export function Compared({ compared }) {
  const { captured, now, then, changed, changed_runs: all } = compared;
  return html`
    <p>${counted(captured.calls, "call")} in ${counted(captured.runs, "run")} were judged twice, made from <${Moment} at=${captured.from} isExact /> to <${Moment} at=${captured.until} isExact />${captured.skipped ? `; ${counted(captured.skipped, "line")} could not be read` : ""}.</p>
    <div class="table-frame">
      <table class="compared">
        <caption class="unseen">The settings in effect and your draft, compared</caption>
        <thead><tr><th scope="col"></th><th scope="col" class="number">Now</th><th scope="col" class="number">Draft</th><th scope="col" class="number">Change</th></tr></thead>
        <tbody>
          ${ROWS.map(({ name, title }) => html`
            <tr key=${name}><th scope="row">${title}</th><td class="number">${compact(now[name])}</td><td class="number"><b>${compact(then[name])}</b></td><td class="number">${difference(then[name] - now[name])}</td></tr>
          `)}
        </tbody>
      </table>
    </div>
    <${ByRule} now=${now.rules} then=${then.rules} />
    <h3>${all ? `${counted(all, "run")} would have another outcome` : "No run would have another outcome"} ${all > changed.length ? html`<span class="quiet">${changed.length} of them shown</span>` : ""}</h3>
    ${changed.length > 0 && html`<${Table} caption="Runs that would have another outcome" columns=${COLUMNS} rows=${changed} keyOf=${(one) => one.run} />`}
    ${compared.limits.length > 0 && html`<h3>Limits of these numbers</h3><ul class="limits quiet">${compared.limits.map((one) => html`<li key=${one}>${one}</li>`)}</ul>`}
    <h3>The same from the command line</h3>
    ${compared.command
      ? html`<p class="quiet">Save the rules as <code>what-if.toml</code>; this command prints the numbers of the draft.</p><${Copyable} text=${compared.command} label="command that prints the same numbers" />`
      : html`<p class="quiet">Not all captured calls were judged, so no command prints exactly these numbers.</p>`}
    <details class="quiet-details">
      <summary>The rules that were tried, as a configuration file</summary>
      <div class="row end"><${CopyButton} text=${compared.config} label="the rules as TOML" /></div>
      <pre class="answer" tabIndex="0" role="region" aria-label="The rules as TOML">${compared.config}</pre>
    </details>
  `;
}

function ByRule({ now, then }) {
  const names = [...new Set([...Object.keys(now), ...Object.keys(then)])];
  const changed = names.filter((name) => (now[name] ?? 0) !== (then[name] ?? 0));
  if (!changed.length) return null;
  return html`<p class="quiet">Runs by rule: ${changed.map((name) => `${name} ${count(now[name] ?? 0)} → ${count(then[name] ?? 0)}`).join(", ")}.</p>`;
}

const COLUMNS = [
  { title: "Run", isName: true, render: (one) => html`<code>${one.run}</code><span class="under quiet" title=${one.model}>${[one.model, one.project].filter(Boolean).join(" · ")}</span>` },
  { title: "Began", render: (one) => html`<${Moment} at=${one.began} isExact />` },
  { title: "Calls", isNumber: true, render: (one) => count(one.calls) },
  { title: "Now", render: (one) => html`<${Found} found=${one.now} />` },
  { title: "Draft", render: (one) => html`<${Found} found=${one.then} />` },
];

function Found({ found }) {
  if (found.verdict === "allow") return html`<${Badge} tone="good">passes<//>`;
  return html`
    <span><${ActionBadge} incident=${{ action: found.verdict, mode: "trial" }} />
      <span class="under quiet">${found.at === null ? NONE : `request ${found.at + 1}`}${found.rule ? `, ${found.rule}` : ""}${found.saved_calls ? `, ${counted(found.saved_calls, "call")} not made` : ""}</span></span>
  `;
}

function difference(value) {
  if (value === 0) return "same";
  return `${value > 0 ? "+" : "−"}${compact(Math.abs(value))}`;
}
