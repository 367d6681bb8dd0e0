// What every rule counts at one step, against its thresholds.

import { html, useMemo } from "../../html.js";
import { count, counted } from "../../number.js";
import { ActionBadge, Badge } from "../../part/badge.js";
import { Ladder } from "../../part/ladder.js";
import { isRefused } from "./verdict.js";
import { tone } from "../../wording.js";

export function Opinions({ tried, at, onMove }) {
  const step = tried.steps[at];
  const { seeing, blind } = useMemo(() => sorted(tried), [tried]);
  const said = new Map(step.opinions.map((one) => [keyOf(one), one]));
  return html`
    <section class="card" aria-labelledby="step">
      <div class="row between">
        <h2 id="step">Step ${at + 1} of ${tried.steps.length} <span class="quiet">a request of ${counted(step.messages, "message")}</span></h2>
        <span class="row">
          <button type="button" class="button small" disabled=${at === 0} onClick=${() => onMove(-1)} aria-label="Previous step">←</button>
          <button type="button" class="button small" disabled=${at === tried.steps.length - 1} onClick=${() => onMove(1)} aria-label="Next step">→</button>
        </span>
      </div>
      <p class="step-verdict" aria-live="polite">${step.verdict.action === "allow" ? html`<${Badge} tone="good">passes<//>` : html`<${ActionBadge} incident=${{ action: step.verdict.action, mode: "trial" }} /> ${isRefused(step.verdict) ? "The client would get: " : ""}${step.verdict.message}`}</p>
      <ul class="rules">
        ${seeing.map((rule) => html`<${Rule} key=${keyOf(rule)} rule=${rule} opinion=${said.get(keyOf(rule))} />`)}
      </ul>
      ${blind.length > 0 && html`<p class="quiet blind">${seeing.length ? "These rules count nothing at any step" : "No rule counts anything at any step"}: ${named(blind)}.</p>`}
    </section>
  `;
}

function Rule({ rule, opinion }) {
  const value = opinion?.count ?? 0;
  const action = opinion?.action ?? "allow";
  return html`
    <li class=${opinion ? undefined : "silent"}>
      <div class="row between">
        <span class="rule-name"><strong>${rule.rule}</strong><span class="quiet">watches ${rule.signal}</span></span>
        ${action === "allow" ? html`<${Badge}>${opinion ? "below its thresholds" : "counts nothing"}<//>` : html`<${ActionBadge} incident=${{ action, mode: "trial" }} />`}
      </div>
      <div class="row rule-count"><span class="rule-number">${count(value)}</span><${Ladder} value=${value} thresholds=${opinion?.thresholds ?? rule.thresholds} tone=${action === "allow" ? "" : tone({ action, mode: "trial" })} /></div>
      <p class="quiet rule-words">${opinion?.words ?? ""}</p>
    </li>
  `;
}

/** Rules that count something at some step, in the same order at every step, and the others. */
function sorted({ rules, steps }) {
  const seen = new Set(steps.flatMap((step) => step.opinions.map(keyOf)));
  return { seeing: rules.filter((rule) => seen.has(keyOf(rule))), blind: rules.filter((rule) => !seen.has(keyOf(rule))) };
}

function named(rules) {
  return rules.map((one) => one.rule).join(", ");
}

function keyOf({ policy, rule }) {
  return `${policy} ${rule}`;
}
