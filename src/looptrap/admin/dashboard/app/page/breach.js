// A budget that refused calls: who, since when, how many, and how to let them pass again.

import { act } from "../act.js";
import { change, get } from "../api.js";
import { html, useState } from "../html.js";
import { useEvent } from "../live.js";
import { useLoaded, useThrottled } from "../loaded.js";
import { count, counted, dollars } from "../number.js";
import { useObserved } from "../observed.js";
import { linkTo } from "../pages.js";
import { Badge } from "../part/badge.js";
import { Button } from "../part/button.js";
import { CopyButton } from "../part/copy.js";
import { Confirm, Field } from "../part/dialog.js";
import { Figure } from "../part/figure.js";
import { Moment } from "../part/moment.js";
import { Loaded } from "../part/state.js";
import { status, whyReadOnly } from "../status.js";
import { capital, unnamed } from "../wording.js";
import { amount, Whose } from "./callers/account.js";
import { breachState } from "./callers/breaches.js";

const REFRESH_MS = 5_000;

export default function BreachPage({ id }) {
  const breach = useLoaded(`breaches/${encodeURIComponent(id)}`);
  const budgets = useLoaded("budgets");
  const reload = () => Promise.all([breach.reload(), budgets.reload()]);
  const freshen = useThrottled(reload, REFRESH_MS);
  for (const event of ["stats", "polled", "change"]) useEvent(event, freshen);
  return html`
    ${!breach.value && html`<div class="page-head"><h1 tabIndex="-1">Budget breach</h1></div>`}
    <${Loaded} of=${breach} lines=${8} what="The breach">
      ${(one) => html`<${Breach} one=${one} budgets=${budgets.value?.budgets ?? []} onChange=${reload} />`}
    <//>
  `;
}

function Breach({ one, budgets, onChange }) {
  const budget = budgets.find(({ name, unit }) => name === one.budget && unit === one.unit);
  const account = budget?.accounts.find(({ fingerprint }) => fingerprint === one.fingerprint);
  const isShadow = one.mode === "shadow";
  const state = breachState(one, account);
  return html`
    <div class="page-head">
      <div>
        <p class="crumb quiet"><a href=${linkTo("callers", { by: "budgets" })}>Budgets</a> <span aria-hidden="true">/</span> breach</p>
        <h1 tabIndex="-1">Budget ${one.budget} ${isShadow ? "would refuse calls" : "refused calls"}</h1>
      </div>
      <${Badge} tone=${state.tone}>${state.words}<//>
    </div>
    <p class="lead">
      ${Object.entries(one.by).map(([name, value], index) => html`${index ? ", " : ""}<${Whose} key=${name} name=${name} value=${value} by=${one.by} />`)}
      ${one.project && !("project" in one.by) ? html` <span class="quiet">of project ${one.project}</span>` : ""}
      ${" had used "}${amount(one, one.used)} of ${amount(one, one.limit)}, and the next call did not fit.
    </p>
    <dl class="figures fit">
      <${Figure} name=${isShadow ? "Calls that would be refused" : "Calls refused"} value=${count(one.refused)} note=${html`the latest <${Moment} at=${one.last} />`} />
      <${Figure} name="Since" value=${html`<${Moment} at=${one.opened} />`} note=${one.resets ? html`the period ends <${Moment} at=${one.resets} />` : "the budget has no period"} />
      <${Figure} name="They would have cost" value=${one.estimated_usd === null ? "unpriced" : `≥ ${dollars(one.estimated_usd)}`} note="their input alone; answers cost more" />
      ${account && html`<${Figure} name="Used now" value=${amount(one, account.used)} note=${`of ${amount(one, account.limit)}, ${account.percent} %`} href=${linkTo("callers", { by: "budgets" })} />`}
    </dl>
    <${Remedies} one=${one} budget=${budget} account=${account} onChange=${onChange} />
  `;
}

function Remedies({ one, budget, account, onChange }) {
  const [asking, setAsking] = useState("");
  const reason = whyReadOnly(useObserved(status));
  const close = () => setAsking("");
  const limit = `limit_${one.unit}`;
  // Limits that clients set themselves are not in the file.
  const canRaise = Boolean(budget) && one.budget !== "session-limit";
  const reset = () => act(change("POST", "release", { fingerprint: one.fingerprint }), "The account was reset.", onChange);
  const path = `budgets/${encodeURIComponent(one.budget)}`;
  const raise = async (fields) => {
    // A limit of the other unit that was set stays.
    const { run_time, version } = await get(path);
    await act(change("PUT", path, { ...run_time, [limit]: Number(fields.limit), version }), "The limit is raised on all instances.", onChange);
  };
  return html`
    <section class="card" aria-labelledby="remedies">
      <h2 id="remedies">Let calls pass again</h2>
      <ul class="remedies">
        <li><strong>Wait.</strong> ${one.state === "over" ? "The period is over, and a new one has begun." : one.resets ? html`The whole budget is available again <${Moment} at=${one.resets} />.` : "This budget has no period, so it is never renewed by itself."}</li>
        <li>
          <strong>Reset this account.</strong> It can use the whole limit again, at once and on all instances. Statistics keep what was spent.
          <${Button} kind="small" why=${reason || (account ? "" : "Nothing is charged to this account now.")} onClick=${() => setAsking("reset")}>Reset the account …<//>
        </li>
        ${canRaise && html`<li>
          <strong>Raise the limit now</strong>, for all accounts of this budget and until it is changed back.
          <${Button} kind="small" why=${reason} onClick=${() => setAsking("raise")}>Raise the limit …<//>
        </li>`}
        <li>
          ${one.toml
            ? html`<strong>Raise the limit for good:</strong> in the configuration file, then reload with <code>SIGHUP</code>.
              <div class="snippet"><pre>${one.toml}</pre><${CopyButton} text=${one.toml} label="the budget with a raised limit" /></div>`
            : one.budget === "session-limit"
              ? html`The client set this limit itself, with <code>X-Looptrap-Session-Limit-Usd</code>: raise it there.`
              : "This budget is no longer in the configuration."}
        </li>
      </ul>
      ${one.words && html`<p class="quiet">${capital(unnamed(one.words, one.budget))}.</p>`}
      <p class="facts quiet"><span>account <code>${one.fingerprint}</code></span><span>latest request <code>${one.request_id}</code></span></p>
    </section>
    ${asking === "reset" && html`
      <${Confirm} title=${`Reset ${one.budget}`} verb="Reset" onConfirm=${reset} onClose=${close}
        consequences=${`${Object.values(one.by).join(", ")} can use the whole ${amount(one, one.limit)} again. ${counted(one.refused, "call")} refused so far may be sent again.`} />
    `}
    ${asking === "raise" && html`
      <${Confirm} title=${`Raise ${one.budget}`} verb="Raise" onConfirm=${raise} onClose=${close} consequences="The next call is judged by the new limit, on all instances. Accounts keep what they have used.">
        <${Field} label=${one.unit === "usd" ? "Limit in dollars" : "Limit in tokens"}><input name="limit" type="number" min="0" step="any" required defaultValue=${one.raised_limit} /><//>
      <//>
    `}
  `;
}
