// Budgets: their accounts, the most used first, and the thresholds at which an action is taken.

import { act } from "../../act.js";
import { change } from "../../api.js";
import { html, useId, useState } from "../../html.js";
import { useEvent } from "../../live.js";
import { useLoaded, useThrottled } from "../../loaded.js";
import { useObserved } from "../../observed.js";
import { linkTo } from "../../pages.js";
import { Badge } from "../../part/badge.js";
import { Button } from "../../part/button.js";
import { Confirm } from "../../part/dialog.js";
import { Ladder } from "../../part/ladder.js";
import { Moment } from "../../part/moment.js";
import { Empty, Loaded } from "../../part/state.js";
import { status, whyReadOnly } from "../../status.js";
import { unnamed } from "../../wording.js";
import { amount, Whose } from "./account.js";
import { Breaches } from "./breaches.js";

const SHOWN = 8;
const REFRESH_MS = 5_000;

/** All of them; with `whose`, the accounts of a caller or session. */
export function Budgets({ whose = null }) {
  const budgets = useLoaded("budgets", whose ?? {});
  const freshen = useThrottled(budgets.reload, REFRESH_MS);
  for (const event of ["stats", "polled", "change"]) useEvent(event, freshen);
  return html`
    <${Loaded} of=${budgets} lines=${8} what="The budgets">
      ${(value) => whose ? html`<${Own} budgets=${value.budgets} onChange=${budgets.reload} />` : html`
        ${value.budgets.length === 0 && html`<${Empty} title="No budget is set.">To limit what a session, caller or project may cost, add <code>[[budgets]]</code> to the configuration file.<//>`}
        <${Breaches} />
        <div class="budgets">${value.budgets.map((one) => html`<${Budget} key=${one.name + one.unit} budget=${one} onChange=${budgets.reload} />`)}</div>
        <${Rates} rates=${value.rates ?? []} />
      `}
    <//>
  `;
}

function Own({ budgets, onChange }) {
  const charged = budgets.filter((one) => one.accounts.length);
  if (charged.length) return charged.map((one) => html`<${Budget} key=${one.name + one.unit} budget=${one} onChange=${onChange} />`);
  return html`
    <section class="card" aria-labelledby="budgets">
      <h2 id="budgets">Budgets</h2>
      <p class="quiet">${budgets.length ? "No budget has been charged lately." : "No budget is set."} <a href=${linkTo("callers", { by: "budgets" })}>All budgets</a></p>
    </section>
  `;
}

function Budget({ budget, onChange }) {
  const [isOpen, setOpen] = useState(false);
  const { accounts } = budget;
  const shown = isOpen ? accounts : accounts.slice(0, SHOWN);
  const name = useId();
  return html`
    <section class="card" aria-labelledby=${name}>
      <div class="row between">
        <h2 id=${name}>${budget.name}</h2>
        ${budget.mode === "shadow" && html`<${Badge} tone="shadow">shadow: reported only<//>`}
      </div>
      <p class="quiet">${unnamed(budget.words, budget.name)}.</p>
      ${accounts.length === 0 && html`<p class="quiet">Nothing has been charged yet.</p>`}
      <ul class="accounts">${shown.map((one) => html`<${Account} key=${one.fingerprint} account=${one} budget=${budget} onChange=${onChange} />`)}</ul>
      ${accounts.length > SHOWN && html`<button type="button" class="button small" onClick=${() => setOpen(!isOpen)}>${isOpen ? "Show fewer" : `Show ${accounts.length - SHOWN} more`}</button>`}
    </section>
  `;
}

function Account({ account, budget, onChange }) {
  const [isAsking, setAsking] = useState(false);
  const reason = whyReadOnly(useObserved(status));
  const whose = Object.entries(account.by);
  const reset = () => act(change("POST", "release", { fingerprint: account.fingerprint }), "The account was reset.", onChange);
  return html`
    <li>
      <div class="row between">
        <span>${whose.map(([name, value], index) => html`${index ? " · " : ""}<${Whose} key=${name} name=${name} value=${value} by=${account.by} />`)}</span>
        <${Button} kind="small" why=${reason} about=${`${budget.name} of ${whose.map(([, value]) => value).join(", ")}`} onClick=${() => setAsking(true)}>Reset …<//>
      </div>
      <${Ladder} value=${account.percent} thresholds=${budget.thresholds} tone=${account.is_exceeded ? "refused" : hasReached(budget.thresholds, account.percent) ? "warned" : ""} unit=" %" isNamed=${false} />
      <p class="facts quiet">
        <span>${amount(budget, account.used)} of ${amount(budget, account.limit)} used, ${account.percent} %</span>
        <span>${account.resets ? html`resets <${Moment} at=${account.resets} />` : "never resets"}</span>
      </p>
      ${isAsking && html`
        <${Confirm}
          title=${`Reset ${budget.name}`} verb="Reset" onConfirm=${reset} onClose=${() => setAsking(false)}
          consequences=${`${whose.map(([name, value]) => `${name} ${value}`).join(", ")} can use the whole ${amount(budget, account.limit)} again, at once and on all instances. The statistics keep what was spent.`}
        />
      `}
    </li>
  `;
}

function Rates({ rates }) {
  if (!rates.length) return null;
  return html`
    <section class="card" aria-labelledby="rates">
      <h2 id="rates">Rate limits</h2>
      <ul>${rates.map((one) => html`<li key=${one.policy + one.name}><strong>${one.name}</strong> <span class="quiet">of ${one.policy}</span> ${unnamed(one.words, one.name)}</li>`)}</ul>
    </section>
  `;
}

/** Whether a stage is reached at which something is done. */
function hasReached(thresholds, percent) {
  return Object.values(thresholds).some((at) => percent >= at);
}
