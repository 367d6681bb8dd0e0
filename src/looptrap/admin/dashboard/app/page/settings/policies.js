// The policies in effect, in words.

import { html } from "../../html.js";
import { useEvent } from "../../live.js";
import { useLoaded } from "../../loaded.js";
import { linkTo } from "../../pages.js";
import { Badge } from "../../part/badge.js";
import { Empty, Loaded } from "../../part/state.js";
import { unnamed } from "../../wording.js";

export function Policies() {
  const policies = useLoaded("policies");
  useEvent("change", policies.reload);
  return html`
    <p class="quiet policies-note">Rules as the configuration file and its preset have them, for callers without a project. They change in the file, never from here; <a href=${linkTo("settings")}>projects</a> and <a href=${linkTo("settings", { part: "tools" })}>tools</a> can be set while the gateway runs.</p>
    <${Loaded} of=${policies} lines=${12} what="The policies">
      ${(value) => html`
        ${value.preset && html`<p class="policies-note">Preset: <strong>${value.preset}</strong></p>`}
        ${value.policies.length === 0 && html`<${Empty} title="No policy is set: nothing is judged." />`}
        ${value.policies.map((one) => html`<${Policy} key=${one.name} policy=${one} />`)}
      `}
    <//>
  `;
}

function Policy({ policy }) {
  const name = `policy-${policy.name}`;
  return html`
    <section class="card" aria-labelledby=${name}>
      <div class="row between">
        <h2 id=${name}>${policy.name} <span class="quiet">binds ${policy.select}</span></h2>
        <${Badge} tone=${policy.mode === "shadow" ? "shadow" : "good"}>${policy.mode === "shadow" ? "shadow: reported only" : "enforced"}<//>
      </div>
      <ul class="rules">
        ${policy.rules.map((rule) => html`<${Rule} key=${rule.name} rule=${rule} />`)}
        ${(policy.rates ?? []).map((rate) => html`<li key=${rate.name}><span class="rule-name"><strong>${rate.name}</strong><span class="quiet">rate</span></span><p class="quiet">${unnamed(rate.words, rate.name)}</p></li>`)}
      </ul>
    </section>
  `;
}

function Rule({ rule }) {
  return html`
    <li>
      <div class="row between">
        <span class="rule-name"><a href=${linkTo("incidents", { state: "all", rule: rule.name })}><strong>${rule.name}</strong></a><span class="quiet">watches ${rule.watch}</span></span>
        ${rule.enabled === false ? html`<${Badge}>off<//>` : html`<span class="badges">${Object.entries(rule.thresholds).map(([action, at]) => html`<${Badge} key=${action} tone=${action === "block" || action === "stop" ? "refused" : "warned"}>${action} at ${at}<//>`)}</span>`}
      </div>
      <p class="quiet">${unnamed(rule.words, rule.name)}</p>
    </li>
  `;
}
