// The dialog that sets a kill switch: it refuses all matching calls until it ends.

import { change } from "../api.js";
import { html, useState } from "../html.js";
import { iso, now, span } from "../time.js";
import { Confirm, Field } from "./dialog.js";

const EXPIRIES = [900, 3_600, 21_600, 86_400, 604_800];
const REASONED = "Stopped by an operator: it was in a loop.";

/** @typedef {{title: string, whose: string, match: Record<string, string>}} Target calls to refuse */

/** The targets of a kill switch for a caller: the session too, if the client names one. */
export function targetsOf({ caller, session }) {
  const isNamed = session && !session.startsWith("~");
  const whole = { title: "all calls of this caller", whose: `${caller}, in all its sessions,`, match: { caller } };
  return isNamed ? [{ title: "this session only", whose: `session ${session} of ${caller}`, match: { caller, session } }, whole] : [whole];
}

/** @param {{targets: Target[], done: (request: Promise, words: string) => Promise}} props the first target is offered first */
export function KillSwitch({ targets, done, onClose }) {
  const [chosen, setChosen] = useState(targets[0]);
  const set = ({ reason, seconds }) => {
    const expires = Number(seconds) ? { expires: iso(now() + Number(seconds) * 1000) } : {};
    return done(change("POST", "kill-switches", { match: chosen.match, reason, ...expires }), "Stopped, on all instances.");
  };
  return html`
    <${Confirm}
      title="Set a kill switch" verb="Stop all its calls" isGrave onConfirm=${set} onClose=${onClose}
      consequences=${`Every call of ${chosen.whose} is refused with 403 until the switch ends, loop or not.`}
    >
      ${targets.length > 1 && html`
        <fieldset class="field">
          <legend>Which calls</legend>
          ${targets.map((one) => html`<label key=${one.title}><input type="radio" name="whom" checked=${one === chosen} onChange=${() => setChosen(one)} /> ${one.title}</label>`)}
        </fieldset>
      `}
      <${Lasting} />
    <//>
  `;
}

/** Why, and until when: fields `reason` and `seconds`, 0 for a switch without an end. */
export function Lasting() {
  return html`
    <${Field} label="Reason" hint="The refused client gets this text."><input name="reason" maxLength="200" defaultValue=${REASONED} required /><//>
    <${Field} label="Ends">
      <select name="seconds">
        ${EXPIRIES.map((seconds) => html`<option key=${seconds} value=${seconds} selected=${seconds === 3_600}>in ${span(seconds)}</option>`)}
        <option value="0">never</option>
      </select>
    <//>
  `;
}
