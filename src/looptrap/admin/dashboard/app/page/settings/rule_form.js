// The form of one rule: on or off, its thresholds and times; tried on captured calls, then saved.

import { act } from "../../act.js";
import { change } from "../../api.js";
import { html, useEffect, useState } from "../../html.js";
import { useObserved } from "../../observed.js";
import { linkTo } from "../../pages.js";
import { Button } from "../../part/button.js";
import { Confirm, Field } from "../../part/dialog.js";
import { status, whyReadOnly } from "../../status.js";
import { unnamed } from "../../wording.js";
import { AsToml } from "./as_toml.js";
import { mistakesOf } from "./draft.js";
import { ACTIONS, changeOf, draftOf, isEqual, linesOf, numbersOf, wordsOf } from "./rule_draft.js";
import { WhatIf } from "./what_if.js";

const WITHIN = "It takes effect for all callers, on all instances within a second.";

/** `rule` as the API has it, `words` what it says. */
export function RuleForm({ rule, words, onChange }) {
  const [base, setBase] = useState(rule);
  const [draft, setDraft] = useState(() => draftOf(rule));
  const [mistake, setMistake] = useState("");
  const [asking, setAsking] = useState("");
  const reason = whyReadOnly(useObserved(status));
  const settings = changeOf(draft, base);
  const isClean = sameAs(settings, changeOf(draftOf(base), base));
  const begin = (from) => {
    setBase(from);
    setDraft(draftOf(from));
    setMistake("");
  };
  useEffect(() => {
    if (isClean) begin(rule);
  }, [rule.version]);
  const set = (name, value) => {
    setDraft({ ...draft, [name]: value });
    setMistake("");
  };
  const show = (error) => setMistake(Object.values(mistakesOf(error, [])).join("; "));
  const path = `rules/${encodeURIComponent(rule.name)}`;
  const put = () => change("PUT", path, { ...settings, version: base.version });
  const drop = () => change("DELETE", path, undefined, { "If-Match": `"${base.version}"` });
  const carry = async (request, said) => {
    try {
      await act(request, said, async () => begin(await request));
      await onChange();
    } catch (error) {
      if (error.status === 409) await onChange();
      if (error.status !== 400 && error.status !== 409) throw error;
      show(error);
    }
  };
  // A rule as the file has it has nothing set here.
  const save = () => carry(Object.keys(settings).length ? put() : drop(), `${rule.name}: saved, on all instances.`);
  const reset = () => carry(drop(), `${rule.name} is as in the file again.`);
  return html`
    <section class="card rule-form" aria-labelledby="rule">
      <div class="row between">
        <h2 id="rule">Rule ${rule.name}</h2>
        <a href=${linkTo("settings", { part: "policies" })}>All rules</a>
      </div>
      <p class="quiet">${unnamed(words, rule.name)}</p>
      ${base.version !== rule.version && html`
        <div class="failed" role="alert"><p><strong>Somebody has changed this rule since you began.</strong></p>
          <button type="button" class="button small" onClick=${() => begin(rule)}>Use their version</button></div>`}
      ${mistake && html`<p class="failed" role="alert">${mistake}</p>`}
      <form onSubmit=${(event) => (event.preventDefault(), setAsking("save"))}>
        <fieldset class="field">
          <legend>Rule <${InFile} name="enabled" rule=${base} /></legend>
          <label><input type="radio" name="enabled" checked=${draft.enabled} onChange=${() => set("enabled", true)} /> on</label>
          <label><input type="radio" name="enabled" checked=${!draft.enabled} onChange=${() => set("enabled", false)} /> off: its loops are not detected</label>
        </fieldset>
        <fieldset class="field">
          <legend>Actions, and the count from which each is taken <${InFile} name="thresholds" rule=${base} /></legend>
          <div class="threshold-fields">
            ${ACTIONS.map((action) => html`<${Field} key=${action} label=${`${action} at`}><input type="text" inputMode="numeric" placeholder="never" autocomplete="off" value=${draft[action]} onInput=${(event) => set(action, event.currentTarget.value)} /><//>`)}
          </div>
        </fieldset>
        <div class="rule-numbers">
          ${numbersOf(base.file).map(({ name, label, unit, hint }) => html`
            <${Field} key=${name} label=${html`${label} <span class="quiet">${unit}</span> <${InFile} name=${name} rule=${base} />`} hint=${hint}>
              <input type="text" inputMode="numeric" autocomplete="off" value=${draft[name]} onInput=${(event) => set(name, event.currentTarget.value)} />
            <//>`)}
        </div>
        <div class="row end">
          ${!isClean && html`<button type="button" class="button" onClick=${() => begin(rule)}>Discard</button>`}
          <${Button} why=${reason || (base.run_time ? "" : "Nothing is set here.")} onClick=${() => setAsking("back")}>Reset …<//>
          <button type="submit" class="button primary" disabled=${Boolean(reason) || isClean} title=${reason || (isClean ? "There is nothing to save." : undefined)}>Save …</button>
        </div>
      </form>
      <${AsToml} toml=${rule.toml} />
    </section>
    <${WhatIf} scopes=${[{ name: "all", title: "all calls", settings: { rules: Object.keys(settings).length ? { [rule.name]: settings } : {} } }]} isClean=${isClean} onMistakes=${show} />
    ${asking === "save" && html`
      <${Confirm} title=${`Save rule ${rule.name}`} verb="Save" isGrave=${!draft.enabled} onConfirm=${save} onClose=${() => setAsking("")}
        consequences=${`${WITHIN} ${draft.enabled ? "" : "Loops that only this rule finds are no longer detected."}`}>
        <${Lines} lines=${linesOf(settings, base)} />
      <//>`}
    ${asking === "back" && html`
      <${Confirm} title=${`Reset ${rule.name} to the file`} verb="Reset" onConfirm=${reset} onClose=${() => setAsking("")}
        consequences=${`What was changed here is removed; the file or its preset is in effect again. ${WITHIN}`}>
        <${Lines} lines=${linesOf({}, base)} />
      <//>`}
  `;
}

function InFile({ name, rule }) {
  const { file, effective } = rule;
  if (isEqual(file[name], effective[name])) return null;
  return html`<span class="quiet in-file">file: ${wordsOf(name, file[name])}</span>`;
}

function Lines({ lines }) {
  if (!lines.length) return html`<p class="quiet">The settings in effect stay the same.</p>`;
  return html`<ul class="changes">${lines.map((line) => html`<li key=${line}>${line}</li>`)}</ul>`;
}

function sameAs(one, other) {
  const names = [...new Set([...Object.keys(one), ...Object.keys(other)])];
  return names.every((name) => isEqual(one[name], other[name]));
}
