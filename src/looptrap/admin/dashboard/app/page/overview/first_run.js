// Instructions before the first call.

import { html } from "../../html.js";
import { Copyable } from "../../part/copy.js";
import { Mark } from "../../part/mark.js";

export function FirstRun({ listen }) {
  const gateway = `http://${reachable(listen ?? "")}`;
  return html`
    <section class="card first-run" aria-labelledby="first-run">
      <${Mark} size=${56} />
      <div>
        <h2 id="first-run">Looptrap is ready. No call has come yet.</h2>
        <p>Point a client at <code>${gateway}</code>; your own API keys pass through. Its calls appear here within seconds.</p>
        <${Copyable} text=${`export OPENAI_BASE_URL=${gateway}/v1`} label="base URL for OpenAI clients" />
        <${Copyable} text=${`export ANTHROPIC_BASE_URL=${gateway}`} label="base URL for Anthropic clients" />
        <p class="quiet">To see how a loop is stopped, without any API key, run <code>looptrap demo</code>.</p>
      </div>
    </section>
  `;
}

/** For a wildcard address, use the host name of this page. */
function reachable(listen) {
  const port = listen.slice(listen.lastIndexOf(":") + 1) || "4100";
  const host = listen.slice(0, listen.lastIndexOf(":"));
  const isAny = ["", "0.0.0.0", "[::]", "::"].includes(host);
  return `${isAny ? location.hostname : host}:${port}`;
}
