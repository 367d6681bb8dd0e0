// The configuration in effect, with where each value comes from.

import { html } from "../../html.js";
import { useHeard } from "../../live.js";
import { useLoaded } from "../../loaded.js";
import { counted } from "../../number.js";
import { Loaded } from "../../part/state.js";
import { Table } from "../../part/table.js";
import { refine } from "../../router.js";

export function Configuration({ query }) {
  const config = useLoaded("config");
  useHeard("change", config.reload);
  return html`
    <section class="card flush" aria-labelledby="configuration">
      <div class="card-head">
        <h2 id="configuration">Configuration in effect</h2>
        <label class="inline-field"><span>Find</span><input type="search" value=${query.q ?? ""} placeholder="setting, value or origin" autocomplete="off" spellcheck="false" onInput=${(event) => refine({ q: event.currentTarget.value })} /></label>
      </div>
      <${Loaded} of=${config} lines=${8} what="The configuration">${(value) => html`<${Values} told=${value} wanted=${(query.q ?? "").toLowerCase()} />`}<//>
    </section>
  `;
}

function Values({ told, wanted }) {
  const shown = told.values.filter((one) => [one.place, one.origin, words(one.value)].some((text) => text.toLowerCase().includes(wanted)));
  return html`
    ${told.warnings.length > 0 && html`<ul class="notices in-card">${told.warnings.map((one) => html`<li key=${one} class="warn"><span class="notice-level">Note</span><span>${one}</span></li>`)}</ul>`}
    <${Sentences} sentences=${told.sentences ?? {}} />
    <div class="values" tabIndex="0" role="region" aria-label="Settings in effect"><${Table} caption="Settings in effect" columns=${COLUMNS} rows=${shown} keyOf=${(one) => one.place} /></div>
    <div class="more"><span class="quiet">${wanted ? `${shown.length} of ` : ""}${counted(told.values.length, "setting")}</span></div>
  `;
}

function Sentences({ sentences }) {
  const told = Object.entries(sentences).filter(([, lines]) => lines.length);
  if (!told.length) return null;
  return html`
    <details class="quiet-details in-card">
      <summary>The same in words</summary>
      ${told.map(([name, lines]) => html`<h3 key=${name}>${name.replaceAll("_", " ")}</h3><ul class="limits">${lines.map((line) => html`<li key=${line}>${line}</li>`)}</ul>`)}
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
