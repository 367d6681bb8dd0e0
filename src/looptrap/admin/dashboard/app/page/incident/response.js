// The response that a refused client got, as text.

import { html } from "../../html.js";

export function ClientResponse({ response, incident }) {
  return html`
    <section class="card" aria-labelledby="response">
      <h2 id="response">Response to the client</h2>
      ${response ? html`<${Answer} response=${response} />` : html`<p class="quiet">${withoutRefusal(incident)}</p>`}
    </section>
  `;
}

function Answer({ response }) {
  const head = Object.entries(response.headers ?? {}).map(([name, value]) => `${name}: ${value}`);
  const body = typeof response.body === "string" ? response.body : JSON.stringify(response.body, null, 2);
  return html`
    <pre class="answer" tabIndex="0" role="region" aria-label="The response as it was sent">${[`HTTP/1.1 ${response.status}`, ...head, "", body ?? ""].join("\n")}</pre>
  `;
}

function withoutRefusal({ mode, action }) {
  if (mode === "shadow") return "The provider's answer with the header X-Looptrap-Shadow: in shadow mode every call passes.";
  if (action === "warn") return "The provider's answer with the header X-Looptrap-Verdict: warn.";
  return "The response is not known.";
}
