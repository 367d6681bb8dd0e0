// The rules in effect, policy by policy, each of which can be changed.

import { html } from "../../html.js";
import { useEvent } from "../../live.js";
import { useLoaded } from "../../loaded.js";
import { linkTo } from "../../pages.js";
import { Badge } from "../../part/badge.js";
import { Empty, Loaded } from "../../part/state.js";
import { unnamed } from "../../wording.js";
import { RuleForm } from "./rule_form.js";

export function Policies({ query }) {
  const policies = useLoaded("policies");
  const rules = useLoaded("rules");
  const reload = () => Promise.all([policies.reload(), rules.reload()]);
  useEvent("change", reload);
  const both = {
    ...policies,
    value: policies.value && rules.value && { ...policies.value, changes: new Map(rules.value.rules.map((one) => [one.name, one])) },
    error: policies.error ?? rules.error,
    isLoading: policies.isLoading || rules.isLoading,
    reload,
  };
  return html`
    <${Loaded} of=${both} lines=${12} what="The rules">
      ${(value) => {
        const every = value.policies.flatMap((one) => one.rules);
        const chosen = every.find((one) => one.name === query.rule);
        if (chosen) return html`<${RuleForm} key=${chosen.name} rule=${value.changes.get(chosen.name)} words=${chosen.words} onChange=${reload} />`;
        return html`
          ${query.rule && html`<p class="failed" role="alert">There is no rule ${query.rule}.</p>`}
          <p class="quiet policies-note">Choose a rule to change it for all callers. <a href=${linkTo("settings")}>Projects</a> and <a href=${linkTo("settings", { part: "tools" })}>tools</a> can differ.</p>
          ${value.policies.length === 0 && html`<${Empty} title="No policy is set: nothing is judged." />`}
          ${value.policies.map((one) => html`<${Policy} key=${one.name} policy=${one} preset=${value.preset} changes=${value.changes} />`)}
        `;
      }}
    <//>
  `;
}

function Policy({ policy, preset, changes }) {
  const name = `policy-${policy.name}`;
  return html`
    <section class="card" aria-labelledby=${name}>
      <div class="row between">
        <h2 id=${name}>${policy.name} <span class="quiet">binds ${policy.select}${preset ? `; preset ${preset}` : ""}</span></h2>
        <${Badge} tone=${policy.mode === "shadow" ? "shadow" : "good"}>${policy.mode === "shadow" ? "shadow: reported only" : "enforced"}<//>
      </div>
      <ul class="rules">
        ${policy.rules.map((rule) => html`<${Rule} key=${rule.name} rule=${rule} isSet=${Boolean(changes.get(rule.name)?.run_time)} />`)}
        ${(policy.rates ?? []).map((rate) => html`<li key=${rate.name}><span class="rule-name"><strong>${rate.name}</strong><span class="quiet">rate</span></span><p class="quiet">${unnamed(rate.words, rate.name)}</p></li>`)}
      </ul>
    </section>
  `;
}

function Rule({ rule, isSet }) {
  return html`
    <li>
      <div class="row between">
        <span class="rule-name"><a href=${linkTo("settings", { part: "policies", rule: rule.name })}><strong>${rule.name}</strong></a><span class="quiet">watches ${rule.watch}</span></span>
        <span class="badges">
          ${isSet && html`<${Badge}>set here<//>`}
          ${rule.enabled === false ? html`<${Badge} tone="warned">off<//>` : Object.entries(rule.thresholds).map(([action, at]) => html`<${Badge} key=${action}>${action} at ${at}<//>`)}
        </span>
      </div>
      <p class="quiet">${unnamed(rule.words, rule.name)} <a href=${linkTo("incidents", { state: "all", rule: rule.name })}>Its incidents</a></p>
    </li>
  `;
}
