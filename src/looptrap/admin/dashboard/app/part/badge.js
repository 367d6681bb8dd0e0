// Badges: a word with a colour. The word carries the meaning, the colour repeats it.

import { html } from "../html.js";
import { done, isLeaking, tone } from "../wording.js";

export function Badge({ tone: colour = "plain", children }) {
  return html`<span class="badge ${colour}">${children}</span>`;
}

/** What was done about an incident. */
export function ActionBadge({ incident }) {
  return html`<${Badge} tone=${tone(incident)}>${done(incident)}<//>`;
}

/** Whether an incident is open, and its annotations. */
export function StateBadges({ incident }) {
  return html`
    <span class="badges">
      <${Badge} tone=${isLeaking(incident) ? "open" : "plain"}>${incident.state}<//>
      ${incident.is_demo && html`<${Badge} tone="shadow">demo<//>`}
      ${incident.acknowledged && html`<${Badge}>acknowledged<//>`}
      ${incident.label === "false_alarm" && html`<${Badge} tone="shadow">false alarm<//>`}
      ${incident.label === "confirmed" && html`<${Badge}>confirmed<//>`}
    </span>
  `;
}
