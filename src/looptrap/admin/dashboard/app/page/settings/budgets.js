// Limits of budgets, raised and lowered while the gateway runs.

import { act } from "../../act.js";
import { change } from "../../api.js";
import { html, useMemo, useState } from "../../html.js";
import { useEvent } from "../../live.js";
import { useLoaded } from "../../loaded.js";
import { dollars, tokens } from "../../number.js";
import { useObserved } from "../../observed.js";
import { linkTo } from "../../pages.js";
import { Badge } from "../../part/badge.js";
import { Button } from "../../part/button.js";
import { Confirm, Field } from "../../part/dialog.js";
import { Empty, Loaded } from "../../part/state.js";
import { Table } from "../../part/table.js";
import { status, whyReadOnly } from "../../status.js";
import { unnamed } from "../../wording.js";
import { AsToml } from "./as_toml.js";

const UNITS = { usd: { label: "Dollars", setting: "limit_usd", words: dollars }, tokens: { label: "Tokens", setting: "limit_tokens", words: tokens } };

export function Budgets() {
  const budgets = useLoaded("budgets");
  useEvent("change", budgets.reload);
  const [open, setOpen] = useState(null);
  const reason = whyReadOnly(useObserved(status));
  const columns = useMemo(() => columnsOf(reason, setOpen), [reason]);
  const rows = useMemo(() => (budgets.value ? byName(budgets.value.budgets) : []), [budgets.value]);
  const shared = { onClose: () => setOpen(null), onChange: budgets.reload };
  return html`
    <section class="card flush" aria-labelledby="budgets">
      <div class="card-head">
        <h2 id="budgets">Limits of budgets</h2>
        <p class="quiet">Raise or lower a limit at once. Whose accounts they are, periods and stages are in the configuration file; <a href=${linkTo("callers", { by: "budgets" })}>accounts and what is used</a> are under Callers.</p>
      </div>
      <${Loaded} of=${budgets} lines=${5} what="The budgets">
        ${() => (rows.length
          ? html`<${Table} caption="Limits of budgets" columns=${columns} rows=${rows} keyOf=${(one) => one.name} />`
          : html`<${Empty} title="No budget is set.">To limit what a session, caller or project may cost, add <code>[[budgets]]</code> to the configuration file.<//>`)}
      <//>
    </section>
    ${rows.some((one) => one.toml) && html`<section class="card"><${AsToml} toml=${rows.map((one) => one.toml).filter(Boolean).join("\n")} isOpen /></section>`}
    ${open?.what === "set" && html`<${SetLimit} budget=${open.budget} ...${shared} />`}
    ${open?.what === "drop" && html`<${Reset} budget=${open.budget} ...${shared} />`}
  `;
}

/** Budgets with all their limits; without those that clients set themselves. */
function byName(views) {
  const found = new Map();
  for (const one of views.filter(({ limit }) => limit !== null)) {
    const known = found.get(one.name) ?? { name: one.name, words: one.words, version: one.version, toml: one.toml, limits: [] };
    known.limits.push({ unit: one.unit, limit: one.limit, ofFile: one.file_limit });
    found.set(one.name, known);
  }
  return [...found.values()];
}

function columnsOf(reason, onOpen) {
  return [
    { title: "Budget", isWide: true, render: (one) => html`<a class="row-link" href=${linkTo("callers", { by: "budgets" })}>${one.name}</a><span class="under whole quiet">${unnamed(one.words, one.name)}</span>` },
    { title: "Limit", render: (one) => html`<b>${one.limits.map(({ unit, limit }) => UNITS[unit].words(limit)).join(", ")}</b>` },
    { title: "File", render: (one) => one.limits.map(({ unit, ofFile }) => (ofFile === null ? "–" : UNITS[unit].words(ofFile))).join(", ") },
    { title: "From", render: (one) => html`<${Badge}>${one.version ? "set here" : "file"}<//>` },
    {
      title: "Change",
      isAction: true,
      render: (one) => html`
        <span class="row">
          <${Button} kind="small" why=${reason} about=${one.name} onClick=${() => onOpen({ what: "set", budget: one })}>Change limit …<//>
          <${Button} kind="small" why=${reason || (one.version ? "" : "It is as in the file.")} about=${one.name} onClick=${() => onOpen({ what: "drop", budget: one })}>Reset …<//>
        </span>
      `,
    },
  ];
}

function SetLimit({ budget, onClose, onChange }) {
  const path = `budgets/${encodeURIComponent(budget.name)}`;
  const save = (fields) => {
    const wanted = budget.limits.map(({ unit, ofFile }) => ({ ...UNITS[unit], value: Number(fields[unit]), ofFile }));
    const given = wanted.filter(({ value, ofFile }) => value !== ofFile);
    const request = given.length
      ? change("PUT", path, { ...Object.fromEntries(given.map(({ setting, value }) => [setting, value])), version: budget.version })
      : change("DELETE", path, undefined, { "If-Match": `"${budget.version}"` });
    return act(request, `${budget.name}: ${wanted.map(({ words, value }) => words(value)).join(", ")}, on all instances.`, onChange);
  };
  return html`
    <${Confirm} title=${`Change the limit of ${budget.name}`} verb="Save" onConfirm=${save} onClose=${onClose}
      consequences="The next call of every account is judged by the new limit, on all instances within a second. What is used stays.">
      ${budget.limits.map(({ unit, limit, ofFile }) => html`
        <${Field} key=${unit} label=${UNITS[unit].label} hint=${ofFile === null ? "" : `In the file: ${UNITS[unit].words(ofFile)}.`}>
          <input name=${unit} type="number" required min=${unit === "usd" ? "0.0001" : "1"} step=${unit === "usd" ? "any" : "1"} defaultValue=${limit} />
        <//>`)}
    <//>
  `;
}

function Reset({ budget, onClose, onChange }) {
  const drop = () => act(change("DELETE", `budgets/${encodeURIComponent(budget.name)}`, undefined, { "If-Match": `"${budget.version}"` }), `${budget.name} has the limit of the file again.`, onChange);
  return html`
    <${Confirm} title=${`Reset the limit of ${budget.name}`} verb="Reset" onConfirm=${drop} onClose=${onClose}
      consequences=${`The limit of the file is in effect again, on all instances within a second: ${budget.limits.map(({ unit, ofFile }) => (ofFile === null ? `no limit of ${unit}` : UNITS[unit].words(ofFile))).join(", ")}.`} />
  `;
}
