// What each rule counted, against its thresholds, and its evidence.

import { html } from "../../html.js";
import { count } from "../../number.js";
import { linkTo } from "../../pages.js";
import { ActionBadge } from "../../part/badge.js";
import { Ladder } from "../../part/ladder.js";
import { tone } from "../../wording.js";

export function Rules({ incident }) {
  const rules = incident.counts?.length ? incident.counts : [alone(incident)];
  return html`
    <section class="card" aria-labelledby="rules">
      <h2 id="rules">What the rules counted</h2>
      <ul class="rules">
        ${rules.map((rule) => html`<${Rule} key=${rule.rule} rule=${rule} mode=${incident.mode} evidence=${incident.evidence} />`)}
        ${unmatched(incident.evidence, rules).map((one) => html`<li key=${one.what} class="quiet">${one.what}</li>`)}
      </ul>
    </section>
  `;
}

function Rule({ rule, mode, evidence = [] }) {
  const said = evidence.find((one) => one.signal === rule.signal);
  const sure = said && said.confidence < 1 ? `, ${Math.round(100 * said.confidence)} % sure` : "";
  return html`
    <li>
      <div class="row between">
        <span class="rule-name">
          <a href=${linkTo("incidents", { state: "all", rule: rule.rule })}><strong>${rule.rule}</strong></a>
          <span class="quiet">watches ${rule.signal}</span>
        </span>
        ${rule.action && rule.action !== "allow" ? html`<${ActionBadge} incident=${{ action: rule.action, mode }} />` : html`<span class="badge plain">no action</span>`}
      </div>
      <div class="row rule-count"><span class="rule-number">${count(rule.count)}</span><${Ladder} value=${rule.count} thresholds=${rule.thresholds ?? {}} tone=${rule.action && rule.action !== "allow" ? tone({ action: rule.action, mode }) : ""} /></div>
      ${said && html`<p class="quiet">${said.what}${sure}</p>`}
    </li>
  `;
}

function unmatched(evidence = [], rules) {
  const known = new Set(rules.map((rule) => rule.signal));
  return evidence.filter((one) => !known.has(one.signal));
}

/** The severest rule as the only one, for an incident without the counts of all rules. */
function alone({ rule, signal, count: value, threshold, action }) {
  return { rule, signal, count: value, thresholds: threshold ? { [action]: threshold } : {}, action };
}
