// Gateway keys: make, rotate and revoke them. A key is shown once; only its digest is stored.

import { change } from "../../api.js";
import { html, useMemo, useState } from "../../html.js";
import { useEvent } from "../../live.js";
import { useLoaded } from "../../loaded.js";
import { useObserved } from "../../observed.js";
import { linkTo } from "../../pages.js";
import { Badge } from "../../part/badge.js";
import { Button } from "../../part/button.js";
import { Copyable } from "../../part/copy.js";
import { Confirm, Dialog, Field } from "../../part/dialog.js";
import { Moment } from "../../part/moment.js";
import { Empty, Loaded } from "../../part/state.js";
import { Table } from "../../part/table.js";
import { say } from "../../part/toast.js";
import { status, whyReadOnly } from "../../status.js";
import { now, span } from "../../time.js";

const NAMED = "[A-Za-z0-9][A-Za-z0-9._\\-]{0,63}";
const NAMED_HINT = "Letters, digits, “.”, “_” and “-”, at most 64.";
const GRACES = [0, 3_600, 86_400, 604_800];

export function Keys() {
  const keys = useLoaded("keys");
  useEvent("change", keys.reload);
  const [open, setOpen] = useState(null);
  const [made, setMade] = useState(null);
  const reason = whyReadOnly(useObserved(status));
  const columns = useMemo(() => columnsOf(reason, setOpen), [reason]);
  const shared = { onClose: () => setOpen(null), onChange: keys.reload, onMade: setMade };
  return html`
    <section class="card flush" aria-labelledby="keys">
      <div class="card-head">
        <h2 id="keys">Gateway keys</h2>
        <p class="quiet">A key identifies a caller, key:NAME, who has counts, budgets and a project. ${keys.value && (keys.value.requires_keys ? "Every call needs a key." : "Calls need no key yet.")}</p>
        <${Button} why=${reason} onClick=${() => setOpen({ what: "add" })}>Add a key …<//>
      </div>
      <${Loaded} of=${keys} lines=${5} what="The keys">
        ${(value) => (value.keys.length
          ? html`<${Table} caption="Gateway keys" columns=${columns} rows=${value.keys} keyOf=${(one) => `${one.name} ${one.created}`} />`
          : html`<${Empty} title="There is no gateway key.">Callers are identified by the credential that they send, else by their address.<//>`)}
      <//>
    </section>
    ${open?.what === "add" && html`<${Add} isFirst=${!keys.value?.requires_keys} ...${shared} />`}
    ${open?.what === "rotate" && html`<${Rotate} name=${open.name} ...${shared} />`}
    ${open?.what === "revoke" && html`<${Revoke} name=${open.name} ...${shared} />`}
    ${made && html`
      <${Dialog} title=${`Copy key ${made.name} now`} onClose=${() => setMade(null)}>
        <p class="consequences">It is shown only here: the gateway stores its digest, from which it cannot be recovered.</p>
        <${Copyable} text=${made.key} label=${`key ${made.name}`} />
        <div class="row end"><button type="button" class="button primary" onClick=${() => setMade(null)}>I have copied it</button></div>
      <//>`}
  `;
}

function columnsOf(reason, onOpen) {
  return [
    { title: "Key", isWide: true, render: (one) => html`<a class="row-link" href=${linkTo("callers", { by: "caller", name: `key:${one.name}` })}>${one.name}</a>` },
    { title: "Project", render: (one) => (one.project ? html`<a href=${linkTo("settings", { project: one.project })}>${one.project}</a>` : "–") },
    { title: "Created", render: (one) => html`<${Moment} at=${one.created} />` },
    { title: "State", render: (one) => html`<${KeyState} revoked=${one.revoked} />` },
    {
      title: "Change",
      isAction: true,
      render: (one) => one.revoked === null && html`
        <span class="row">
          <${Button} kind="small" why=${reason} about=${one.name} onClick=${() => onOpen({ what: "rotate", name: one.name })}>Rotate …<//>
          <${Button} kind="small" why=${reason} about=${one.name} onClick=${() => onOpen({ what: "revoke", name: one.name })}>Revoke …<//>
        </span>
      `,
    },
  ];
}

/** Whether a key is valid, was replaced and ends soon, or is revoked. */
export function KeyState({ revoked }) {
  if (revoked === null) return html`<${Badge} tone="good">valid<//>`;
  if (Date.parse(revoked) > now()) return html`<span><${Badge} tone="warned">replaced<//> <span class="quiet">ends <${Moment} at=${revoked} /></span></span>`;
  return html`<span><${Badge} tone="refused">revoked<//> <span class="quiet"><${Moment} at=${revoked} /></span></span>`;
}

function Add({ isFirst, onClose, onChange, onMade }) {
  const add = async ({ name, project }) => {
    const made = await change("POST", "keys", { name: name.trim(), ...(project.trim() ? { project: project.trim() } : {}) });
    onMade(made);
    await onChange();
  };
  return html`
    <${Confirm} title="Add a key" verb="Make the key" isGrave=${isFirst} onConfirm=${add} onClose=${onClose}
      consequences=${isFirst ? "This is the first key. From then on every call needs a key: callers without one are refused with 401." : "It is valid at once, on all instances within a second."}>
      <${Field} label="Name" hint=${`Whose it is, such as ci or ada-laptop. ${NAMED_HINT}`}><input name="name" required pattern=${NAMED} autocomplete="off" spellcheck="false" /><//>
      <${Field} label="Project" hint="Optional: a project has its own settings."><input name="project" pattern=${NAMED} autocomplete="off" spellcheck="false" /><//>
    <//>
  `;
}

function Rotate({ name, onClose, onChange, onMade }) {
  const rotate = async ({ grace }) => {
    const made = await change("POST", `keys/${encodeURIComponent(name)}/rotate`, { grace_seconds: Number(grace) });
    onMade(made);
    await onChange();
  };
  return html`
    <${Confirm} title=${`Rotate key ${name}`} verb="Make another key" onConfirm=${rotate} onClose=${onClose}
      consequences=${`Another key takes its place. The caller stays key:${name}, with its counts and budgets.`}>
      <${Field} label="The present key stays valid for">
        <select name="grace">${GRACES.map((seconds) => html`<option key=${seconds} value=${seconds}>${seconds ? span(seconds) : "no longer: it is refused at once"}</option>`)}</select>
      <//>
    <//>
  `;
}

function Revoke({ name, onClose, onChange }) {
  const revoke = async () => {
    await change("DELETE", `keys/${encodeURIComponent(name)}`);
    say(`Key ${name} is revoked.`);
    await onChange();
  };
  return html`
    <${Confirm} title=${`Revoke key ${name}`} verb="Revoke" isGrave onConfirm=${revoke} onClose=${onClose}
      consequences="Every call with this key is refused with 401 from now on, on all instances. This cannot be undone; a new key can have the same name." />
  `;
}
