// What the client sent, where content is captured: arguments, results, and the history to try.

import { html } from "../../html.js";
import { useLoaded } from "../../loaded.js";
import { counted } from "../../number.js";
import { useObserved } from "../../observed.js";
import { linkTo } from "../../pages.js";
import { Loaded } from "../../part/state.js";
import { status } from "../../status.js";

export function Captured({ id }) {
  const isKept = useObserved(status)?.capture === "content";
  const captured = useLoaded(isKept ? `incidents/${encodeURIComponent(id)}/captured` : null);
  if (!isKept || captured.value?.calls === 0) return null;
  return html`
    <section class="card" aria-labelledby="captured">
      <h2 id="captured">What was sent</h2>
      <${Loaded} of=${captured} lines=${3} what="The captured calls">
        ${({ rounds, calls }) => html`
          <ol class="captured">${rounds.map((round, index) => html`<${Round} key=${index} round=${round} />`)}</ol>
          <p class="card-foot"><a href=${linkTo("try", { incident: id })}>Try this history</a> <span class="quiet">${counted(calls, "captured call")} of this session, judged step by step</span></p>
        `}
      <//>
    </section>
  `;
}

function Round({ round }) {
  return html`
    <li>
      <pre class="sent" tabIndex="0" role="region" aria-label="Call">${round.calls}</pre>
      ${round.result && html`<pre class="sent ${round.is_error ? "error" : ""}" tabIndex="0" role="region" aria-label=${round.is_error ? "Error" : "Result"}>${round.result}</pre>`}
    </li>
  `;
}
