// After a false alarm: the setting of the tool that would have prevented it.

import { change } from "../../api.js";
import { html, useState } from "../../html.js";
import { useObserved } from "../../observed.js";
import { Confirm } from "../../part/dialog.js";
import { say } from "../../part/toast.js";
import { status, whyReadOnly } from "../../status.js";

export function Suggestion({ incident, onChange }) {
  const [isOpen, setOpen] = useState(false);
  const reason = whyReadOnly(useObserved(status));
  const { suggestion } = incident;
  if (!suggestion || incident.label !== "false_alarm") return null;
  const apply = async () => {
    await change("PUT", `tools/${encodeURIComponent(suggestion.tool)}`, suggestion.setting);
    say(`${suggestion.tool}: ${words(suggestion.setting)}, on all instances.`);
    await onChange();
  };
  return html`
    <section class="card suggestion" aria-labelledby="suggestion">
      <div>
        <h2 id="suggestion">Prevent this false alarm for <code>${suggestion.tool}</code></h2>
        <p>${suggestion.why} Suggested: <strong>${words(suggestion.setting)}</strong>.</p>
      </div>
      <button type="button" class="button primary" disabled=${Boolean(reason)} title=${reason} onClick=${() => setOpen(true)}>Apply to this tool …</button>
      ${isOpen && html`
        <${Confirm}
          title=${`Change the rules for ${suggestion.tool}`} verb="Apply"
          consequences=${`For every caller, ${suggestion.tool} gets: ${words(suggestion.setting)}. It applies to all rules that read the history, on all instances within a second. You can undo it under Settings.`}
          onConfirm=${apply} onClose=${() => setOpen(false)}
        />
      `}
    </section>
  `;
}

function words(setting) {
  if (setting.exempt) return "exempt, its rounds are ignored";
  return Object.entries(setting.thresholds).map(([action, at]) => `${action} at ${at}`).join(", ");
}
