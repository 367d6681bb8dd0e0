// The steps, one a request, each with its verdict.

import { html, useEffect, useRef } from "../../html.js";
import { ActionBadge } from "../../part/badge.js";

export function Steps({ steps, at, refused, onChoose }) {
  const list = useRef(null);
  useEffect(() => {
    const shown = list.current.querySelector("[aria-current]");
    // Only the list scrolls: the page stays where the reader has it.
    if (shown) list.current.scrollTop = Math.max(0, shown.offsetTop - list.current.clientHeight / 3);
  }, [at]);
  return html`
    <section class="card flush" aria-labelledby="steps">
      <div class="card-head"><h2 id="steps">Steps <span class="quiet">← and → move between steps</span></h2></div>
      <ol class="steps" ref=${list} tabIndex="0" aria-labelledby="steps">
        ${steps.map((step) => html`<${Step} key=${step.index} step=${step} isCurrent=${step.index === at} isFirstRefused=${step.index === refused} onChoose=${onChoose} />`)}
      </ol>
    </section>
  `;
}

function Step({ step, isCurrent, isFirstRefused, onChoose }) {
  const { verdict } = step;
  return html`
    <li class=${isFirstRefused ? "first-refused" : undefined}>
      ${isFirstRefused && html`<p class="refused-from">would be refused from here</p>`}
      <button type="button" class="step" aria-current=${isCurrent ? "step" : undefined} onClick=${() => onChoose(step.index)}>
        <span class="step-number">${step.index + 1}</span>
        <span class="step-words"><span class="quiet">${step.role}</span> ${step.summary || "(empty)"}
          ${step.result !== null && html`<span class="step-result ${step.is_error ? "failed-result" : "quiet"}">→ ${step.result || "(empty)"}</span>`}</span>
        ${verdict.action !== "allow" && html`<${ActionBadge} incident=${{ action: verdict.action, mode: "trial" }} />`}
      </button>
    </li>
  `;
}
