// Tools with thresholds of their own, which replace those of the rules.

import { act } from "../../act.js";
import { change } from "../../api.js";
import { html, useMemo, useState } from "../../html.js";
import { useEvent } from "../../live.js";
import { useLoaded } from "../../loaded.js";
import { useObserved } from "../../observed.js";
import { linkTo } from "../../pages.js";
import { Badge } from "../../part/badge.js";
import { Button } from "../../part/button.js";
import { Confirm, Field } from "../../part/dialog.js";
import { Empty, Loaded } from "../../part/state.js";
import { Table } from "../../part/table.js";
import { status, whyReadOnly } from "../../status.js";
import { AsToml } from "./as_toml.js";
import { ACTIONS, ruleOf, ruleWords } from "./tool_rule.js";

const NEW = { name: "", file: null, run_time: null, effective: null, version: 0 };

export function Tools() {
  const tools = useLoaded("tools");
  useEvent("change", tools.reload);
  const [open, setOpen] = useState(null);
  const reason = whyReadOnly(useObserved(status));
  const columns = useMemo(() => columnsOf(reason, setOpen), [reason]);
  const close = () => setOpen(null);
  return html`
    <section class="card flush" aria-labelledby="tools">
      <div class="card-head">
        <h2 id="tools">Tools with thresholds of their own</h2>
        <p class="quiet">They replace the thresholds of every rule that reads the history when the latest round calls only this tool. Use them for tools that repeat on purpose, such as polling.</p>
        <${Button} why=${reason} onClick=${() => setOpen({ tool: NEW, what: "set" })}>Add a tool …<//>
      </div>
      <${Loaded} of=${tools} lines=${5} what="The tools">
        ${(value) => (value.tools.length
          ? html`<${Table} caption="Tools with thresholds of their own" columns=${columns} rows=${value.tools} keyOf=${(one) => one.name} />`
          : html`<${Empty} title="No tool has thresholds of its own.">An incident that is marked as a false alarm suggests them: <a href=${linkTo("incidents", { state: "all", label: "false_alarm" })}>see false alarms</a>.<//>`)}
      <//>
    </section>
    ${tools.value?.tools.some((one) => one.toml) && html`<section class="card"><${AsToml} toml=${tools.value.tools.map((one) => one.toml).filter(Boolean).join("\n")} isOpen /></section>`}
    ${open?.what === "set" && html`<${SetTool} tool=${open.tool} onClose=${close} onChange=${tools.reload} />`}
    ${open?.what === "drop" && html`<${DropTool} tool=${open.tool} onClose=${close} onChange=${tools.reload} />`}
  `;
}

function columnsOf(reason, onOpen) {
  return [
    { title: "Tool", isWide: true, render: (one) => html`<a class="row-link" href=${linkTo("incidents", { state: "all", q: one.name })}><code>${one.name}</code></a>` },
    { title: "In effect", render: (one) => html`<b>${ruleWords(one.effective)}</b>` },
    { title: "From", render: (one) => (one.run_time ? html`<${Badge}>set here<//>` : html`<${Badge}>file<//>`) },
    { title: "File", render: (one) => ruleWords(one.file) },
    {
      title: "Change",
      isAction: true,
      render: (one) => html`
        <span class="row">
          <${Button} kind="small" why=${reason} about=${one.name} onClick=${() => onOpen({ tool: one, what: "set" })}>Change …<//>
          <${Button} kind="small" why=${reason || (one.run_time ? "" : "It is set in the file.")} about=${one.name} onClick=${() => onOpen({ tool: one, what: "drop" })}>Reset …<//>
        </span>
      `,
    },
  ];
}

function SetTool({ tool, onClose, onChange }) {
  const [kind, setKind] = useState(tool.effective?.exempt ? "exempt" : "thresholds");
  const known = tool.effective?.thresholds ?? (tool.name ? {} : { warn: 20, block: 60 });
  const save = (fields) => {
    const name = tool.name || fields.name.trim();
    const request = change("PUT", `tools/${encodeURIComponent(name)}`, { ...ruleOf({ ...fields, kind }), ...(tool.name ? { version: tool.version } : {}) });
    return act(request, `${name}: ${ruleWords(ruleOf({ ...fields, kind }))}, on all instances.`, onChange);
  };
  return html`
    <${Confirm}
      title=${tool.name ? `Change the rules for ${tool.name}` : "Add a tool"} verb="Save" onConfirm=${save} onClose=${onClose}
      consequences="It applies to every caller and to all rules that read the history, on all instances within a second."
    >
      ${!tool.name && html`<${Field} label="Tool" hint="As the model calls it."><input name="name" required autocomplete="off" spellcheck="false" /><//>`}
      <fieldset class="field">
        <legend>Treatment</legend>
        <label><input type="radio" name="how" checked=${kind === "thresholds"} onChange=${() => setKind("thresholds")} /> its own thresholds</label>
        <label><input type="radio" name="how" checked=${kind === "exempt"} onChange=${() => setKind("exempt")} /> exempt: rounds that call only this tool are ignored</label>
      </fieldset>
      ${kind === "thresholds" && html`
        <div class="threshold-fields">
          ${ACTIONS.map((action) => html`<${Field} key=${action} label=${`${action} at`}><input name=${action} type="number" min="2" max="10000" step="1" defaultValue=${known[action] ?? ""} placeholder="never" /><//>`)}
        </div>
      `}
    <//>
  `;
}

function DropTool({ tool, onClose, onChange }) {
  const drop = () => act(change("DELETE", `tools/${encodeURIComponent(tool.name)}`, undefined, { "If-Match": `"${tool.version}"` }), `${tool.name} ${tool.file ? "has the settings of the file" : "follows the rules"} again.`, onChange);
  return html`
    <${Confirm}
      title=${`Reset ${tool.name}`} verb="Reset" onConfirm=${drop} onClose=${onClose}
      consequences=${tool.file ? `The setting of the file is in effect again, on all instances within a second: ${ruleWords(tool.file)}.` : "The rules treat it like any other tool again, on all instances within a second."}
    />
  `;
}
