// The kill switch of an incident: stops the whole session or the whole caller, until it ends.

import { change } from "../../api.js";
import { html, useState } from "../../html.js";
import { Confirm, Field } from "../../part/dialog.js";
import { iso, now, span } from "../../time.js";

const EXPIRIES = [900, 3_600, 21_600, 86_400, 604_800];
const REASONED = "Stopped by an operator: it was going in circles.";

export function KillSwitch({ incident, done, onClose }) {
  const isNamed = incident.session && !incident.session.startsWith("~");
  const [whom, setWhom] = useState(isNamed ? "session" : "caller");
  const set = ({ reason, seconds }) => {
    const match = whom === "session" ? { caller: incident.caller, session: incident.session } : { caller: incident.caller };
    const expires = Number(seconds) ? { expires: iso(now() + Number(seconds) * 1000) } : {};
    return done(change("POST", "kill-switches", { match, reason, ...expires }), `The ${whom} is stopped on all instances.`);
  };
  return html`
    <${Confirm}
      title="Set a kill switch" verb="Stop all its calls" isGrave onConfirm=${set} onClose=${onClose}
      consequences=${whom === "session"
        ? `Every call of session ${incident.session} of ${incident.caller} is refused with 403 until the switch ends, loop or not.`
        : `Every call of ${incident.caller} is refused with 403 until the switch ends, in all its sessions, loop or not.`}
    >
      <fieldset class="field">
        <legend>Whom</legend>
        <label><input type="radio" name="whom" value="session" checked=${whom === "session"} disabled=${!isNamed} onChange=${() => setWhom("session")} /> this session${isNamed ? "" : " (the client named none)"}</label>
        <label><input type="radio" name="whom" value="caller" checked=${whom === "caller"} onChange=${() => setWhom("caller")} /> the whole caller</label>
      </fieldset>
      <${Field} label="Reason" hint="The refused client is told so."><input name="reason" maxLength="200" defaultValue=${REASONED} required /><//>
      <${Field} label="Ends">
        <select name="seconds">
          ${EXPIRIES.map((seconds) => html`<option key=${seconds} value=${seconds} selected=${seconds === 3_600}>in ${span(seconds)}</option>`)}
          <option value="0">never, until it is taken back</option>
        </select>
      <//>
    <//>
  `;
}
