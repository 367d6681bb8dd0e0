// Providers with their circuits.

import { html } from "../../html.js";
import { useEvent } from "../../live.js";
import { useLoaded, useThrottled } from "../../loaded.js";
import { count, latency, percent } from "../../number.js";
import { Badge } from "../../part/badge.js";
import { Moment } from "../../part/moment.js";
import { Empty, Loaded } from "../../part/state.js";
import { Table } from "../../part/table.js";

const REFRESH_MS = 5_000;
const STATES = { closed: ["good", "closed"], open: ["refused", "open"], half_open: ["warned", "half open"] };

export function Providers() {
  const providers = useLoaded("providers");
  const freshen = useThrottled(providers.reload, REFRESH_MS);
  for (const event of ["stats", "status", "polled"]) useEvent(event, freshen);
  return html`
    <section class="card flush" aria-labelledby="providers">
      <div class="card-head"><h2 id="providers">Providers</h2></div>
      <${Loaded} of=${providers} lines=${4} what="The providers">
        ${(value) => (value.providers.length ? html`<${Table} caption="Providers" columns=${COLUMNS} rows=${value.providers} keyOf=${(one) => one.name} />` : html`<${Empty} title="No provider is configured." />`)}
      <//>
    </section>
  `;
}

const COLUMNS = [
  { title: "Provider", isName: true, render: (one) => html`<strong>${one.name}</strong><span class="under quiet" title=${one.base_url}>${one.base_url}</span>` },
  { title: "Calls", isNumber: true, value: (one) => one.calls, render: (one) => count(one.calls) },
  { title: "Failed", isNumber: true, value: (one) => one.failures, render: (one) => html`${count(one.failures)} <span class="quiet">${one.calls ? percent(one.failures, one.calls) : ""}</span>` },
  { title: "First byte, p95", isNumber: true, value: (one) => one.p95_first_byte_seconds, render: (one) => latency(one.p95_first_byte_seconds) },
  { title: "Circuits", isWide: true, render: (one) => html`<${Circuits} breakers=${one.breakers} />` },
];

function Circuits({ breakers }) {
  if (!breakers.length) return html`<span class="quiet">none in use</span>`;
  return html`
    <ul class="circuits">
      ${breakers.map((one) => html`
        <li key=${`${one.circuit} ${one.credential}`}>
          <${Badge} tone=${STATES[one.state]?.[0]}>${STATES[one.state]?.[1] ?? one.state}<//> <code>${one.circuit}</code>${one.credential ? ` for ${one.credential}` : ""}
          ${one.state !== "closed" && html` <span class="quiet">${one.reason ?? ""}${one.until ? html` next try <${Moment} at=${one.until} />` : ""}</span>`}
        </li>
      `)}
    </ul>
  `;
}
