// What the client was told: the refusal as it went out, as text.

import { html } from "../../html.js";

export function Told({ told, incident }) {
  return html`
    <section class="card" aria-labelledby="told">
      <h2 id="told">Response to the client</h2>
      ${told ? html`<${Answer} told=${told} />` : html`<p class="quiet">${untold(incident)}</p>`}
    </section>
  `;
}

function Answer({ told }) {
  const head = Object.entries(told.headers ?? {}).map(([name, value]) => `${name}: ${value}`);
  const body = typeof told.body === "string" ? told.body : JSON.stringify(told.body, null, 2);
  return html`
    <pre class="answer" tabIndex="0" role="region" aria-label="The response as it was sent">${[`HTTP/1.1 ${told.status}`, ...head, "", body ?? ""].join("\n")}</pre>
  `;
}

function untold({ mode, action }) {
  if (mode === "shadow") return "The provider's answer with the header X-Looptrap-Shadow: in shadow mode every call passes.";
  if (action === "warn") return "The provider's answer with the header X-Looptrap-Verdict: warn.";
  return "The response is not known.";
}
