// The actions on an incident; each names its consequences before it runs.

import { act } from "../../act.js";
import { change } from "../../api.js";
import { html, useState } from "../../html.js";
import { counted } from "../../number.js";
import { useObserved } from "../../observed.js";
import { Button } from "../../part/button.js";
import { Confirm, Field } from "../../part/dialog.js";
import { KillSwitch, targetsOf } from "../../part/kill_switch.js";
import { say } from "../../part/toast.js";
import { status, whyReadOnly } from "../../status.js";
import { span } from "../../time.js";

const EXTENSIONS = [300, 1_800, 3_600, 21_600, 86_400];

export function Actions({ incident, onChange }) {
  const [open, setOpen] = useState("");
  const reason = whyReadOnly(useObserved(status));
  const path = `incidents/${encodeURIComponent(incident.id)}`;
  const done = (request, words) => act(request, words, onChange);
  const press = (request, words) => done(request, words).catch((error) => say(error.message, "bad"));
  const label = (value, words) => press(change("PUT", `${path}/label`, { label: value }), words);
  const shared = { incident, done, onClose: () => setOpen("") };
  const isRefused = incident.mode !== "shadow" && (incident.fingerprints?.length || incident.fingerprint);
  const nothing = isRefused ? "" : "No call of this incident is being refused.";
  return html`
    <div class="actions" role="group" aria-label="Actions">
      <${Button} kind="primary" why=${reason || nothing} onClick=${() => setOpen("release")}>Release …<//>
      <${Button} why=${reason || nothing} onClick=${() => setOpen("extend")}>Extend cooldown …<//>
      <${Button} kind="grave" why=${reason} onClick=${() => setOpen("kill")}>Kill switch …<//>
      <span class="actions-gap"></span>
      ${!incident.acknowledged && html`<${Button} why=${reason} onClick=${() => press(change("POST", `${path}/acknowledge`, {}), "Acknowledged: others see that somebody takes care of it.")}>Acknowledge<//>`}
      ${incident.label === null || incident.label === undefined
        ? html`<${Button} why=${reason} onClick=${() => label("false_alarm", "Marked as a false alarm.")}>Mark as false alarm<//>
            <${Button} why=${reason} onClick=${() => label("confirmed", "Confirmed as a loop.")}>Confirm<//>`
        : html`<${Button} why=${reason} onClick=${() => label(null, "The label was removed.")}>Remove label “${incident.label.replace("_", " ")}”<//>`}
      ${reason && html`<span class="quiet">${reason}</span>`}
    </div>
    ${open === "release" && html`<${Release} ...${shared} />`}
    ${open === "extend" && html`<${Extend} ...${shared} />`}
    ${open === "kill" && html`<${KillSwitch} targets=${targetsOf(incident)} ...${shared} />`}
  `;
}

export function Release({ incident, done, onClose }) {
  const release = () =>
    done(change("POST", "release", { incident: incident.id }), (answer) =>
      answer.released ? `Released ${counted(answer.released, "fingerprint")}: the next such call passes.` : "No call of this incident was being refused any more.",
    );
  return html`
    <${Confirm}
      title="Let these calls pass again" verb="Release" onConfirm=${release} onClose=${onClose}
      consequences="The next call of this kind reaches the provider and is paid for. Counting starts again on all instances; a loop that continues is refused again at its threshold."
    />
  `;
}

function Extend({ incident, done, onClose }) {
  const fingerprint = incident.fingerprints?.at(-1) ?? incident.fingerprint;
  const extend = ({ seconds }) =>
    done(change("POST", "cooldowns", { fingerprint, seconds: Number(seconds) }), `Refused for another ${span(Number(seconds))}.`);
  return html`
    <${Confirm}
      title="Extend the cooldown" verb="Extend" onConfirm=${extend} onClose=${onClose}
      consequences="The call that was refused last stays refused for this long, at no cost. Other calls of the same caller pass as before."
    >
      <${Field} label="Keep refusing for">
        <select name="seconds">${EXTENSIONS.map((seconds) => html`<option key=${seconds} value=${seconds}>${span(seconds)}</option>`)}</select>
      <//>
    <//>
  `;
}
