// Kill switches in force: whom they stop, why, and until when.

import { act } from "../../act.js";
import { change } from "../../api.js";
import { html, useMemo, useState } from "../../html.js";
import { useEvent } from "../../live.js";
import { useLoaded } from "../../loaded.js";
import { useObserved } from "../../observed.js";
import { Badge } from "../../part/badge.js";
import { Button } from "../../part/button.js";
import { Confirm, Field } from "../../part/dialog.js";
import { KillSwitch, Lasting } from "../../part/kill_switch.js";
import { Moment } from "../../part/moment.js";
import { Loaded } from "../../part/state.js";
import { Table } from "../../part/table.js";
import { CallerLink, SessionLink } from "../../part/who.js";
import { status, whyReadOnly } from "../../status.js";
import { iso, now } from "../../time.js";

const DESCRIPTORS = ["caller", "project", "session", "model", "user", "ip:address"];

/** All of them; with `targets`, those that match one of these, which can be stopped from here. */
export function KillSwitches({ targets = null }) {
  const switches = useLoaded("kill-switches");
  for (const event of ["change", "status"]) useEvent(event, switches.reload);
  const [asking, setAsking] = useState(null);
  const reason = whyReadOnly(useObserved(status));
  const columns = useMemo(() => columnsOf(reason, setAsking), [reason]);
  const close = () => setAsking(null);
  const isShown = (one) => !targets || targets.some(({ match }) => isWithin(one.match, match));
  return html`
    <section class="card flush" aria-labelledby="kill-switches">
      <div class="card-head"><h2 id="kill-switches">Kill switches in force</h2>
        <${Button} kind="grave" why=${reason} onClick=${() => setAsking("new")}>Set one …<//></div>
      <${Loaded} of=${switches} lines=${3} what="The kill switches">
        ${(value) => (value.kill_switches.some(isShown)
          ? html`<${Table} caption="Kill switches in force" columns=${columns} rows=${value.kill_switches.filter(isShown)} keyOf=${(one) => one.id ?? matchWords(one.match)} />`
          : html`<p class="none quiet">No kill switch is set.</p>`)}
      <//>
    </section>
    ${asking === "new" && targets && html`<${KillSwitch} targets=${targets} done=${(request, words) => act(request, words, switches.reload)} onClose=${close} />`}
    ${asking === "new" && !targets && html`<${Set} onClose=${close} onChange=${switches.reload} />`}
    ${asking?.id && html`<${End} one=${asking} onClose=${close} onChange=${switches.reload} />`}
  `;
}

function columnsOf(reason, onEnd) {
  return [
    { title: "Calls", isWide: true, render: (one) => html`<strong><${Match} match=${one.match} /></strong><span class="under quiet" title=${one.reason}>${one.reason || "no reason given"}</span>` },
    { title: "Ends", render: (one) => (one.expires ? html`<${Moment} at=${one.expires} />` : "never") },
    { title: "From", render: (one) => html`<${Badge}>${one.origin === "file" ? "file" : "set here"}<//>` },
    { title: "End", isAction: true, render: (one) => html`<${Button} kind="small" why=${reason || (one.id ? "" : "It is set in the file. Remove it there.")} about=${matchWords(one.match)} onClick=${() => onEnd(one)}>End …<//>` },
  ];
}

function End({ one, onClose, onChange }) {
  const end = () => act(change("DELETE", `kill-switches/${encodeURIComponent(one.id)}`), "Ended: these calls pass again.", onChange);
  return html`
    <${Confirm} title="End this kill switch" verb="End it" onConfirm=${end} onClose=${onClose}
      consequences=${`Calls of ${matchWords(one.match)} are judged and forwarded again, on all instances.`} />
  `;
}

function Set({ onClose, onChange }) {
  const set = ({ descriptor, value, reason, seconds }) => {
    const expires = Number(seconds) ? { expires: iso(now() + Number(seconds) * 1000) } : {};
    return act(change("POST", "kill-switches", { match: { [descriptor.trim()]: value }, reason, ...expires }), "Stopped, on all instances.", onChange);
  };
  return html`
    <${Confirm} title="Set a kill switch" verb="Stop all its calls" isGrave onConfirm=${set} onClose=${onClose}
      consequences="Every call that matches is refused with 403 until the switch ends, loop or not.">
      <${Field} label="Match calls by" hint="Also header:x-team, query:name or jwt:claim.">
        <input name="descriptor" list="descriptors" defaultValue="caller" required autocomplete="off" spellcheck="false" />
        <datalist id="descriptors">${DESCRIPTORS.map((one) => html`<option key=${one} value=${one}></option>`)}</datalist>
      <//>
      <${Field} label="Value"><input name="value" required autocomplete="off" spellcheck="false" placeholder="key:ci" /><//>
      <${Lasting} />
    <//>
  `;
}

/** Whether all that a switch asks for is what the target has. */
function isWithin(match, target) {
  return Object.entries(match).every(([name, value]) => target[name] === value);
}

/** What a switch matches, with links to callers and sessions. */
function Match({ match }) {
  return Object.entries(match).map(([name, value], index) => {
    const isSession = name === "session" && match.caller;
    const link = name === "caller" ? html`<${CallerLink} caller=${value} />` : isSession ? html`<${SessionLink} ...${match} />` : value;
    return html`${index ? ", " : ""}${name} ${link}`;
  });
}

function matchWords(match) {
  return Object.entries(match).map(([name, value]) => `${name} ${value}`).join(", ");
}
