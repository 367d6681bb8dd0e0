// The configuration in effect, with where each value comes from.

import { html } from "../../html.js";
import { useEvent } from "../../live.js";
import { useLoaded } from "../../loaded.js";
import { counted } from "../../number.js";
import { Loaded } from "../../part/state.js";
import { Table } from "../../part/table.js";
import { refine } from "../../router.js";

export function Configuration({ query }) {
  const config = useLoaded("config");
  useEvent("change", config.reload);
  return html`
    <section class="card flush" aria-labelledby="configuration">
      <div class="card-head">
        <h2 id="configuration">Configuration in effect</h2>
        <label class="inline-field"><span>Find</span><input type="search" value=${query.q ?? ""} placeholder="setting, value or origin" autocomplete="off" spellcheck="false" onInput=${(event) => refine({ q: event.currentTarget.value })} /></label>
      </div>
      <${Loaded} of=${config} lines=${8} what="The configuration">${(value) => html`<${Values} config=${value} search=${(query.q ?? "").toLowerCase()} />`}<//>
    </section>
  `;
}

function Values({ config, search }) {
  const shown = config.values.filter((one) => [one.place, one.origin, words(one.value)].some((text) => text.toLowerCase().includes(search)));
  return html`
    ${config.warnings.length > 0 && html`<ul class="notices in-card">${config.warnings.map((one) => html`<li key=${one} class="warn"><span class="notice-level">Note</span><span>${one}</span></li>`)}</ul>`}
    <${Sentences} sentences=${config.sentences ?? {}} />
    <div class="values" tabIndex="0" role="region" aria-label="Settings in effect"><${Table} caption="Settings in effect" columns=${COLUMNS} rows=${shown} keyOf=${(one) => one.place} /></div>
    <div class="more"><span class="quiet">${search ? `${shown.length} of ` : ""}${counted(config.values.length, "setting")}</span></div>
  `;
}

function Sentences({ sentences }) {
  const groups = Object.entries(sentences).filter(([, lines]) => lines.length);
  if (!groups.length) return null;
  return html`
    <details class="quiet-details in-card">
      <summary>The same in words</summary>
      ${groups.map(([name, lines]) => html`<h3 key=${name}>${name.replaceAll("_", " ")}</h3><ul class="limits">${lines.map((line) => html`<li key=${line}>${line}</li>`)}</ul>`)}
    </details>
  `;
}

const COLUMNS = [
  { title: "Setting", isName: true, render: (one) => html`<code>${one.place}</code>` },
  { title: "Value", isWide: true, render: (one) => html`<code>${words(one.value)}</code>` },
  { title: "From", render: (one) => one.origin },
];

function words(value) {
  return typeof value === "string" ? value : JSON.stringify(value);
}
