// One setting of the form: its control, and beside it what the file says and what is in effect.

import { html, useId } from "../../html.js";
import { originOf, valueWords } from "./draft.js";

export function Setting({ field, project, text, mistake, onText }) {
  const control = useId();
  const hint = useId();
  const unset = project.file?.[field.name] === undefined ? "as each rule says" : `as the file says (${valueWords(field, project.file[field.name])})`;
  const given = {
    id: control,
    value: text,
    "aria-describedby": hint,
    "aria-invalid": mistake ? "true" : undefined,
  };
  return html`
    <div class="setting ${mistake ? "wrong" : ""}">
      <div>
        <label for=${control}>${field.label}${field.unit ? html` <span class="quiet">${field.unit}</span>` : ""}</label>
        ${field.choices
          ? html`<select ...${given} onChange=${(event) => onText(event.currentTarget.value)}>
              <option value="">${field.name === "detection" && !project.file?.detection ? "on (by default)" : unset}</option>
              ${field.choices.map((one) => html`<option key=${one} value=${one}>${one}</option>`)}
            </select>`
          : html`<input ...${given} type="text" inputMode="numeric" placeholder=${unset} autocomplete="off" onInput=${(event) => onText(event.currentTarget.value)} />`}
        <p id=${hint} class="setting-hint ${mistake ? "" : "quiet"}" role=${mistake ? "alert" : undefined}>${mistake ? `${field.label} ${mistake}` : field.hint}</p>
      </div>
      <dl class="setting-values">
        <div><dt>File</dt><dd>${project.file?.[field.name] === undefined ? "–" : valueWords(field, project.file[field.name])}</dd></div>
        <div><dt>In effect</dt><dd><b>${valueWords(field, project.effective?.[field.name])}</b> <span class="quiet">${origin(field, project)}</span></dd></div>
      </dl>
    </div>
  `;
}

/** Where the value comes from, unless the value itself says so. */
function origin(field, project) {
  const words = originOf(project, field.name);
  return words === valueWords(field, project.effective?.[field.name]) ? "" : words;
}
