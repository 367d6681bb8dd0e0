// What the client was told: the refusal as it went out, as text.

import { html } from "../../html.js";

export function Told({ told, incident }) {
  return html`
    <section class="card" aria-labelledby="told">
      <h2 id="told">What the client was told</h2>
      ${told ? html`<${Answer} told=${told} />` : html`<p class="quiet">${untold(incident)}</p>`}
    </section>
  `;
}

function Answer({ told }) {
  const head = Object.entries(told.headers ?? {}).map(([name, value]) => `${name}: ${value}`);
  const body = typeof told.body === "string" ? told.body : JSON.stringify(told.body, null, 2);
  return html`
    <pre class="answer" tabIndex="0" role="region" aria-label="The answer as it was sent">${[`HTTP/1.1 ${told.status}`, ...head, "", body ?? ""].join("\n")}</pre>
  `;
}

function untold({ mode, action }) {
  if (mode === "shadow") return "Nothing but X-Looptrap-Shadow on the answer: in shadow mode every call passes.";
  if (action === "warn") return "Nothing but X-Looptrap-Verdict: warn on the provider's answer.";
  return "Nothing is known of it.";
}
