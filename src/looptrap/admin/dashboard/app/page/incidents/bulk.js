// Change many incidents at once: those selected, or all that match the filters.

import { change } from "../../api.js";
import { html, useEffect, useState } from "../../html.js";
import { counted } from "../../number.js";
import { useObserved } from "../../observed.js";
import { Button } from "../../part/button.js";
import { Confirm } from "../../part/dialog.js";
import { say } from "../../part/toast.js";
import { status, whyReadOnly } from "../../status.js";
import { iso, now } from "../../time.js";

const KINDS = {
  acknowledge: {
    verb: "Acknowledge",
    done: "acknowledged",
    left: "that are not acknowledged yet",
    means: "Everyone sees that somebody takes care of them. Nothing else changes.",
  },
  close: {
    verb: "Close",
    done: "closed",
    left: "that are open",
    means: "They are over at once, and channels are informed. Cooldowns stay as they are; a loop that goes on opens a new incident.",
  },
};

/** The buttons; `chosen` are the ids selected, `filters` those of the list. */
export function Bulk({ chosen, filters, onDone }) {
  const [asking, setAsking] = useState(null);
  const reason = whyReadOnly(useObserved(status));
  // What opens while the viewer reads the question is not part of the answer.
  const ask = (kind) => setAsking({ kind, target: chosen.length ? { ids: chosen } : { filter: { ...typed(filters), until: filters.until ?? iso(now()) } } });
  const whose = chosen.length ? "selected" : "all";
  return html`
    ${Object.entries(KINDS).map(([kind, { verb }]) => html`<${Button} key=${kind} kind="small" why=${reason} onClick=${() => ask(kind)}>${`${verb} ${whose} …`}<//>`)}
    ${asking && html`<${Question} ...${asking} onDone=${onDone} onClose=${() => setAsking(null)} />`}
  `;
}

function Question({ kind, target, onDone, onClose }) {
  const { verb, done, left, means } = KINDS[kind];
  const [found, setFound] = useState(null);
  useEffect(() => {
    change("POST", `incidents/bulk/${kind}`, { ...target, dry_run: true }).then(setFound, (error) => setFound({ error }));
  }, []);
  const confirm = async () => {
    let number = 0;
    for (;;) {
      const answer = await change("POST", `incidents/bulk/${kind}`, target);
      number += answer.changed;
      if (!answer.changed || answer.changed >= answer.matching) break;
    }
    say(`${counted(number, "incident")} ${done}.`);
    onDone();
  };
  const title = `${verb} incidents`;
  if (!found) return html`<${Confirm} title=${title} verb=${verb} isWaiting onClose=${onClose} consequences="Counting the incidents …" />`;
  if (found.error) return html`<${Confirm} title=${title} verb=${verb} isWaiting onClose=${onClose} consequences=${found.error.message} />`;
  if (!found.matching) return html`<${Confirm} title=${title} verb=${verb} isWaiting onClose=${onClose} consequences=${`There are none ${left}.`} />`;
  return html`
    <${Confirm} title=${title} verb=${`${verb} ${counted(found.matching, "incident")}`} onConfirm=${confirm} onClose=${onClose}
      consequences=${`${counted(found.matching, "incident")} of ${counted(found.callers, "caller")} ${left}. ${means}`} />
  `;
}

/** The filters with the types of a body: in an address everything is text. */
function typed({ acknowledged, ...filters }) {
  return acknowledged ? { ...filters, acknowledged: acknowledged === "true" } : filters;
}
