// Loop detection, project by project.

import { html, useState } from "../../html.js";
import { useEvent } from "../../live.js";
import { useLoaded } from "../../loaded.js";
import { useObserved } from "../../observed.js";
import { linkTo } from "../../pages.js";
import { Badge } from "../../part/badge.js";
import { Button } from "../../part/button.js";
import { Confirm, Field } from "../../part/dialog.js";
import { Empty, Loaded } from "../../part/state.js";
import { go } from "../../router.js";
import { status, whyReadOnly } from "../../status.js";
import { ProjectForm } from "./project_form.js";

const NAMED = "[A-Za-z0-9][A-Za-z0-9._\\-]{0,63}";

export function Detection({ query }) {
  const projects = useLoaded("projects");
  useEvent("change", projects.reload);
  return html`
    <${Loaded} of=${projects} lines=${10} what="The projects">
      ${(value) => html`<${Shown} projects=${value.projects} name=${query.project} reload=${projects.reload} />`}
    <//>
  `;
}

function Shown({ projects, name, reload }) {
  const unset = name && { name, version: 0, file: null, run_time: null, effective: null };
  const chosen = projects.find((one) => one.name === name) ?? (unset || projects[0]);
  return html`
    <div class="columns chosen-first">
      <div>
        ${chosen
          ? html`<${ProjectForm} key=${chosen.name} project=${chosen} onChange=${reload} />`
          : html`<section class="card"><${Empty} title="No project has settings of its own.">Add a project to give its callers other thresholds, or only to report their loops.<//></section>`}
      </div>
      <div>
        <${Picker} projects=${projects} chosen=${chosen} />
        <${Others} />
      </div>
    </div>
  `;
}

function Picker({ projects, chosen }) {
  const [isNaming, setNaming] = useState(false);
  const reason = whyReadOnly(useObserved(status));
  return html`
    <section class="card" aria-labelledby="projects">
      <h2 id="projects">Projects</h2>
      <ul class="choices">
        ${projects.map((one) => html`
          <li key=${one.name}>
            <a href=${linkTo("settings", { project: one.name })} aria-current=${one.name === chosen?.name ? "true" : undefined}>${one.name}</a>
            <span class="badges">
              <${Badge} tone=${{ off: "refused", shadow: "shadow" }[one.effective?.detection] ?? "good"}>${one.effective?.detection ?? "on"}<//>
              ${one.run_time && html`<${Badge}>set here<//>`}
            </span>
          </li>
        `)}
      </ul>
      <div class="row end"><${Button} why=${reason} onClick=${() => setNaming(true)}>Add a project …<//></div>
      ${isNaming && html`
        <${Confirm}
          title="Add a project" verb="Continue" onClose=${() => setNaming(false)}
          onConfirm=${({ name }) => go("/settings", { project: name.trim() })}
          consequences="Gateway keys name their project when they are made. Nothing changes until you save."
        >
          <${Field} label="Project" hint="Letters, digits, “.”, “_” and “-”, at most 64."><input name="name" required pattern=${NAMED} autocomplete="off" spellcheck="false" /><//>
        <//>
      `}
    </section>
  `;
}

function Others() {
  return html`
    <section class="card" aria-labelledby="others">
      <h2 id="others">All other callers</h2>
      <p>Callers without a project follow the <a href=${linkTo("settings", { part: "policies" })}>rules</a>, which can be changed one by one.</p>
    </section>
  `;
}
