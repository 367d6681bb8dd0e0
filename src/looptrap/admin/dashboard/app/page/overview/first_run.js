// Before the first call: how to send one, and a loop to look at.

import { act } from "../../act.js";
import { change } from "../../api.js";
import { html, useState } from "../../html.js";
import { Button } from "../../part/button.js";
import { Copyable } from "../../part/copy.js";
import { Mark } from "../../part/mark.js";
import { say } from "../../part/toast.js";
import { refresh, whyReadOnly } from "../../status.js";

export function FirstRun({ current }) {
  const gateway = `http://${reachable(current?.listen ?? "")}`;
  return html`
    <section class="card first-run" aria-labelledby="first-run">
      <${Mark} size=${56} />
      <div>
        <h2 id="first-run">Looptrap is ready. No call has come yet.</h2>
        <p>Point a client at <code>${gateway}</code>; your own API keys pass through. Its calls appear here within seconds.</p>
        <${Copyable} text=${`export OPENAI_BASE_URL=${gateway}/v1`} label="base URL for OpenAI clients" />
        <${Copyable} text=${`export ANTHROPIC_BASE_URL=${gateway}`} label="base URL for Anthropic clients" />
        <${Demo} why=${whyReadOnly(current)} />
      </div>
    </section>
  `;
}

function Demo({ why }) {
  const [isBusy, setBusy] = useState(false);
  const play = async () => {
    setBusy(true);
    await act(change("POST", "demo", {}), playedWords, refresh).catch((error) => say(error.message, "bad"));
    setBusy(false);
  };
  return html`
    <div class="row demo">
      <${Button} why=${why || (isBusy ? "The demo is being played." : "")} onClick=${play}>Play a demo loop<//>
      <span class="quiet">A stuck agent, judged by your rules. No provider is called, no money is counted, and no alert is sent.</span>
    </div>
  `;
}

function playedWords({ calls, acted, refused }) {
  if (!acted) return `The demo made ${calls} calls, and no rule in effect acted on them.`;
  return refused ? `The demo made ${calls} calls: ${refused} were refused.` : `The demo made ${calls} calls: rules would have acted on ${acted}.`;
}

/** For a wildcard address, use the host name of this page. */
function reachable(listen) {
  const port = listen.slice(listen.lastIndexOf(":") + 1) || "4100";
  const host = listen.slice(0, listen.lastIndexOf(":"));
  const isAny = ["", "0.0.0.0", "[::]", "::"].includes(host);
  return `${isAny ? location.hostname : host}:${port}`;
}
