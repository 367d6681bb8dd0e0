// The settings of one project: a draft beside what the file says and what is in effect; tried, then saved.

import { act } from "../../act.js";
import { change } from "../../api.js";
import { html, useEffect, useState } from "../../html.js";
import { useObserved } from "../../observed.js";
import { linkTo } from "../../pages.js";
import { Button } from "../../part/button.js";
import { Confirm } from "../../part/dialog.js";
import { status, whyReadOnly } from "../../status.js";
import { AsToml } from "./as_toml.js";
import { changesOf, draftOf, FIELDS, isSame, mistakesOf, settingsOf } from "./draft.js";
import { Setting } from "./setting.js";
import { WhatIf } from "./what_if.js";

const WITHIN = "It takes effect on all instances within a second.";

export function ProjectForm({ project, onChange }) {
  // What the draft began from: others may change the project meanwhile, and are not overwritten unseen.
  const [base, setBase] = useState(project);
  const [draft, setDraft] = useState(() => draftOf(project));
  const [mistakes, setMistakes] = useState({});
  const [asking, setAsking] = useState("");
  const reason = whyReadOnly(useObserved(status));
  const isClean = isSame(draft, base);
  const begin = (from) => {
    setBase(from);
    setDraft(draftOf(from));
    setMistakes({});
  };
  useEffect(() => {
    if (isClean) begin(project);
  }, [project.version]);
  const set = (name, text) => {
    setDraft({ ...draft, [name]: text });
    setMistakes({ ...mistakes, [name]: undefined, "": undefined });
  };
  const path = `projects/${encodeURIComponent(project.name)}`;
  const carry = async (request, words) => {
    try {
      await act(request, words, async () => begin(await request));
      await onChange();
    } catch (error) {
      if (error.status === 409) await onChange();
      else if (error.status === 400) setMistakes(mistakesOf(error));
      else throw error;
    }
  };
  const save = () => carry(change("PUT", path, { ...settingsOf(draft), version: base.version }), `${project.name}: saved, on all instances.`);
  const takeBack = () => carry(change("DELETE", path, undefined, { "If-Match": `"${base.version}"` }), `${project.name} has the settings of the file again.`);
  const changes = changesOf(draft, base);
  return html`
    <section class="card" aria-labelledby="project">
      <h2 id="project">Project ${project.name} <${Keys} file=${project.file} /></h2>
      ${base.version !== project.version && html`<${Conflict} project=${project} onTake=${() => begin(project)} onKeep=${() => setBase(project)} />`}
      ${mistakes[""] && html`<p class="failed" role="alert">${mistakes[""]}</p>`}
      <form onSubmit=${(event) => (event.preventDefault(), setAsking("save"))}>
        ${FIELDS.map((field) => html`<${Setting} key=${field.name} field=${field} project=${base} text=${draft[field.name]} mistake=${mistakes[field.name]} onText=${(text) => set(field.name, text)} />`)}
        <div class="row end">
          ${!isClean && html`<button type="button" class="button" onClick=${() => begin(project)}>Discard</button>`}
          <${Button} why=${reason || (base.run_time ? "" : "Nothing is set here.")} onClick=${() => setAsking("back")}>Reset …<//>
          <button type="submit" class="button primary" disabled=${Boolean(reason) || isClean} title=${reason || (isClean ? "There is nothing to save." : undefined)}>Save …</button>
        </div>
      </form>
      <${AsToml} toml=${project.toml} />
    </section>
    <${WhatIf} scopes=${scopesOf(project.name, settingsOf(draft))} isClean=${isClean} onMistakes=${(error) => setMistakes(mistakesOf(error))} />
    ${asking === "save" && html`
      <${Confirm} title=${`Save the settings of ${project.name}`} verb="Save" onConfirm=${save} onClose=${() => setAsking("")}
        consequences=${`${WITHIN} ${settingsOf(draft).detection === "off" ? "Loops of this project are no longer detected." : ""}`}>
        <${Changes} lines=${changes} />
      <//>`}
    ${asking === "back" && html`
      <${Confirm} title=${`Reset ${project.name} to the file`} verb="Reset" onConfirm=${takeBack} onClose=${() => setAsking("")}
        consequences=${`All settings made here are removed; those of the file are in effect again. ${WITHIN}`}>
        <${Changes} lines=${changesOf(draftOf({ run_time: null }), base)} />
      <//>`}
  `;
}

function scopesOf(name, settings) {
  return [
    { name: "own", title: `calls of ${name} only`, settings: { project: { name, ...settings } } },
    { name: "all", title: "all calls", settings: { project: settings } },
  ];
}

function Changes({ lines }) {
  if (!lines.length) return html`<p class="quiet">The settings in effect stay the same.</p>`;
  return html`<ul class="changes">${lines.map((line) => html`<li key=${line}>${line}</li>`)}</ul>`;
}

function Keys({ file }) {
  if (!file) return html`<span class="quiet">not in the file</span>`;
  if (!file.keys?.length) return null;
  return html`<span class="quiet">keys ${file.keys.map((key, index) => html`${index ? ", " : ""}<a key=${key} href=${linkTo("callers", { by: "caller", name: `key:${key}` })}>${key}</a>`)}</span>`;
}

function Conflict({ project, onTake, onKeep }) {
  const set = Object.entries(project.run_time ?? {}).map(([name, value]) => `${name} ${value}`).join(", ");
  return html`
    <div class="failed" role="alert">
      <p><strong>Somebody has changed this project since you began.</strong> Now set here: ${set || "nothing, the settings of the file are in effect"}.</p>
      <span class="row">
        <button type="button" class="button small" onClick=${onTake}>Use their version</button>
        <button type="button" class="button small" onClick=${onKeep}>Keep my draft</button>
      </span>
    </div>
  `;
}
