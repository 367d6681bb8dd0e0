// A count against the thresholds of its rule: a bar with a tick where each action begins.

import { html } from "../html.js";
import { count } from "../number.js";

/**
 * @param {{value: number, thresholds: Record<string, number>, tone: string, unit?: string, isNamed?: boolean}} props
 *   `tone` as of a badge; empty where no threshold is reached
 */
export function Ladder({ value, thresholds, tone, unit = "", isNamed = true }) {
  const steps = Object.entries(thresholds).sort((one, other) => one[1] - other[1]);
  const end = Math.max(value, ...steps.map(([, at]) => at)) * 1.12 || 1;
  const along = (number) => `${(100 * number) / end}%`;
  const words = steps.map(([name, at]) => `${name} at ${count(at)}${unit}`).join(", ");
  return html`
    <div class="ladder" role="img" aria-label=${`${count(value)}${unit || " counted"}; ${words || "no thresholds"}`}>
      <div class="ladder-track">
        <div class="ladder-fill ${tone}" style=${{ width: along(value) }}></div>
        ${steps.map(([name, at]) => html`<span key=${name} class="ladder-tick" style=${{ left: along(at) }}></span>`)}
      </div>
      ${isNamed && html`<div class="ladder-names">
        ${steps.map(([name, at], index) => html`<span key=${name} class=${nearness(steps, index, end)} style=${{ left: along(at) }}>${name} ${count(at)}${unit}</span>`)}
      </div>`}
    </div>
  `;
}

/** Say where a name would stand on the one before it: everywhere, or where there is little room. */
function nearness(steps, index, end) {
  const isNear = (at, share) => at > 0 && !isNear(at - 1, share) && (steps[at][1] - steps[at - 1][1]) / end < share;
  if (isNear(index, 0.09)) return "lower";
  return isNear(index, 0.24) ? "lower-narrow" : undefined;
}
