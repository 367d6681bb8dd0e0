// The dialog of an action that a link in an alert asks for: `?do=release`. Nothing is done before it is confirmed.

import { act } from "../../act.js";
import { change } from "../../api.js";
import { html, useState } from "../../html.js";
import { useObserved } from "../../observed.js";
import { Confirm } from "../../part/dialog.js";
import { KillSwitch, targetsOf } from "../../part/kill_switch.js";
import { refine } from "../../router.js";
import { status, whyReadOnly } from "../../status.js";
import { Release } from "./actions.js";

const DIALOGS = { acknowledge: Acknowledge, release: Release, kill: ({ incident, ...rest }) => html`<${KillSwitch} targets=${targetsOf(incident)} ...${rest} />` };

export function Asked({ incident, action, onChange }) {
  const [isOpen, setOpen] = useState(true);
  const current = useObserved(status);
  const Wanted = Object.hasOwn(DIALOGS, action ?? "") ? DIALOGS[action] : null;
  if (!isOpen || !Wanted || !current) return null;
  const reason = whyReadOnly(current) || (action === "acknowledge" && incident.acknowledged ? `Acknowledged by ${incident.acknowledged.by} already.` : "");
  if (reason) return html`<p class="quiet" role="status">${reason}</p>`;
  const close = () => {
    setOpen(false);
    refine({ do: undefined }); // a reload must not ask again
  };
  return html`<${Wanted} incident=${incident} done=${(request, words) => act(request, words, onChange)} onClose=${close} />`;
}

function Acknowledge({ incident, done, onClose }) {
  const acknowledge = () => done(change("POST", `incidents/${encodeURIComponent(incident.id)}/acknowledge`, {}), "Acknowledged: others see that somebody takes care of it.");
  return html`
    <${Confirm} title="Acknowledge this incident" verb="Acknowledge" onConfirm=${acknowledge} onClose=${onClose}
      consequences="Others see that you take care of it. Nothing changes for calls." />
  `;
}
