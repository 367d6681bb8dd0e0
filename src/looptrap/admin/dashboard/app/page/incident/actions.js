// The recommended action first, then the others; each names its consequences before it runs.

import { act } from "../../act.js";
import { advise } from "../../advice.js";
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
import { isLeaking } from "../../wording.js";

const EXTENSIONS = [300, 1_800, 3_600, 21_600, 86_400];

export function Actions({ incident, onChange }) {
  const [open, setOpen] = useState("");
  const reason = whyReadOnly(useObserved(status));
  const advice = advise(incident);
  const done = (request, words) => act(request, words, onChange);
  const shared = { incident, done, onClose: () => setOpen("") };
  const all = actionsOn(incident, { done, setOpen, best: advice.action });
  const shown = (names) => all.filter(({ of }) => names(of)).map(({ title, kind = "", why = "", run }) => html`<${Button} key=${title} kind=${kind} why=${reason || why} onClick=${run}>${title}<//>`);
  return html`
    <section class="card advice ${isLeaking(incident) ? "leaking" : ""}" aria-labelledby="advice">
      <div><h2 id="advice">${advice.title}</h2><p>${advice.why}</p></div>
      <div class="row">${shown((of) => of === advice.action)}</div>
    </section>
    <div class="actions" role="group" aria-label="Other actions">
      ${shown((of) => of !== advice.action)}
      ${reason && html`<span class="quiet">${reason}</span>`}
    </div>
    ${open === "release" && html`<${Release} ...${shared} />`}
    ${open === "extend" && html`<${Extend} ...${shared} />`}
    ${open === "kill" && html`<${KillSwitch} targets=${targetsOf(incident)} ...${shared} />`}
  `;
}

/** What can be done; only what is recommended, `best`, is a filled button. */
function actionsOn(incident, { done, setOpen, best }) {
  const path = `incidents/${encodeURIComponent(incident.id)}`;
  const press = (request, words) => done(request, words).catch((error) => say(error.message, "bad"));
  const label = (value, words) => press(change("PUT", `${path}/label`, { label: value }), words);
  const isRefused = incident.mode !== "shadow" && (incident.fingerprints?.length || incident.fingerprint);
  const why = isRefused ? "" : "No call of this incident is being refused.";
  const labels = incident.label
    ? [{ of: "unlabel", title: `Remove label “${incident.label.replace("_", " ")}”`, run: () => label(null, "The label was removed.") }]
    : [
        { of: "label", title: "Confirm", kind: best === "label" ? "primary" : "", run: () => label("confirmed", "Confirmed as a loop.") },
        { of: "label", title: "Mark as false alarm", run: () => label("false_alarm", "Marked as a false alarm.") },
      ];
  const acknowledge = () => press(change("POST", `${path}/acknowledge`, {}), "Acknowledged: others see that somebody takes care of it.");
  return [
    { of: "kill", title: "Kill switch …", kind: best === "kill" ? "grave filled" : "grave", run: () => setOpen("kill") },
    ...(incident.acknowledged ? [] : [{ of: "acknowledge", title: "Acknowledge", kind: best === "acknowledge" ? "primary" : "", run: acknowledge }]),
    ...labels,
    { of: "extend", title: "Extend cooldown …", why, run: () => setOpen("extend") },
    { of: "release", title: "Release …", why, run: () => setOpen("release") },
  ];
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
