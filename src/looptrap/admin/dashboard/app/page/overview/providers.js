// Providers: whether they answer, how soon, and which circuits are not closed.

import { html } from "../../html.js";
import { useEvent } from "../../live.js";
import { useLoaded, useThrottled } from "../../loaded.js";
import { counted, latency, percent } from "../../number.js";
import { Badge } from "../../part/badge.js";
import { Moment } from "../../part/moment.js";
import { Empty, Loaded } from "../../part/state.js";

const REFRESH_MS = 10_000;

export function Providers() {
  const providers = useLoaded("providers");
  const freshen = useThrottled(providers.reload, REFRESH_MS);
  for (const event of ["stats", "status"]) useEvent(event, freshen);
  return html`
    <section class="card" aria-labelledby="providers">
      <h2 id="providers">Providers <span class="quiet">since the start of the gateway</span></h2>
      <${Loaded} of=${providers} lines=${3} what="The providers">
        ${(value) => (value.providers.length
          ? html`<ul class="providers">${value.providers.map((one) => html`<${Provider} key=${one.name} provider=${one} />`)}</ul>`
          : html`<${Empty} title="No provider is configured." />`)}
      <//>
    </section>
  `;
}

function Provider({ provider }) {
  const away = provider.breakers.filter((one) => one.state !== "closed");
  return html`
    <li>
      <div class="row between">
        <strong>${provider.name}</strong>
        <${Health} provider=${provider} away=${away} />
      </div>
      <p class="facts quiet">
        <span>${counted(provider.calls, "call")}</span>
        ${provider.calls > 0 && html`<span>${percent(provider.failures, provider.calls)} failed</span>`}
        ${provider.p95_first_byte_seconds !== null && html`<span title="95 of 100 answers begin within this time">first byte ${latency(provider.p95_first_byte_seconds)} (p95)</span>`}
      </p>
      ${away.map((one) => html`
        <p class="breaker" key=${`${one.circuit} ${one.credential}`}>
          ${one.state === "open" ? "Circuit open" : "Circuit half open: one call tests the provider"}${one.credential ? ` for ${one.credential}` : ""}${one.reason ? `: ${one.reason}` : ""}.
          ${one.until && html` Next try <${Moment} at=${one.until} />.`}
        </p>
      `)}
    </li>
  `;
}

function Health({ provider, away }) {
  if (away.some((one) => one.state === "open" && !one.credential)) return html`<${Badge} tone="refused">circuit open<//>`;
  if (away.length) return html`<${Badge} tone="warned">${away.every((one) => one.credential) ? "limited for some credentials" : "being tested"}<//>`;
  if (!provider.calls) return html`<${Badge}>not used yet<//>`;
  if (provider.failures > provider.calls / 20) return html`<${Badge} tone="warned">failing<//>`;
  return html`<${Badge} tone="good">answering<//>`;
}
