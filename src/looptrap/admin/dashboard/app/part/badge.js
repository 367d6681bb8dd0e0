// Badges: a word with a colour. The word carries the meaning, the colour repeats it.

import { html } from "../html.js";
import { callTone, decided, done, isLeaking, tone } from "../wording.js";

export function Badge({ tone: colour = "plain", children }) {
  return html`<span class="badge ${colour}">${children}</span>`;
}

/** What was done about an incident. */
export function ActionBadge({ incident }) {
  return html`<${Badge} tone=${tone(incident)}>${done(incident)}<//>`;
}

/** What was done with a logged call. */
export function VerdictBadge({ call }) {
  return html`<${Badge} tone=${callTone(call)}>${decided(call)}<//>`;
}

/** Whether an incident is open, and its annotations; with `isNamed`, by whom it was acknowledged. */
export function StateBadges({ incident, isNamed = false }) {
  return html`
    <span class="badges">
      <${Badge} tone=${isLeaking(incident) ? "open" : "plain"}>${incident.state}<//>
      ${incident.is_demo && html`<${Badge} tone="shadow">demo<//>`}
      ${incident.acknowledged && html`<${Badge}>acknowledged${isNamed && ` by ${incident.acknowledged.by}`}<//>`}
      ${incident.label === "false_alarm" && html`<${Badge} tone="shadow">false alarm<//>`}
      ${incident.label === "confirmed" && html`<${Badge}>confirmed<//>`}
    </span>
  `;
}
