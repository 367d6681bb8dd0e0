// One incident: what to do about it, what repeats, the counts and thresholds, and what was done.

import { html, useEffect } from "../html.js";
import { useEvent } from "../live.js";
import { useLoaded, useThrottled } from "../loaded.js";
import { count, NONE } from "../number.js";
import { useObserved } from "../observed.js";
import { linkTo } from "../pages.js";
import { ActionBadge, StateBadges } from "../part/badge.js";
import { Moment } from "../part/moment.js";
import { Empty, Failed, Loading } from "../part/state.js";
import { Strip } from "../part/strip.js";
import { callerPage, sessionPage } from "../part/who.js";
import { title } from "../title.js";
import { clock, exact, iso, relative, span } from "../time.js";
import { headline } from "../wording.js";
import { Actions } from "./incident/actions.js";
import { Asked } from "./incident/asked.js";
import { Captured } from "./incident/captured.js";
import { Money } from "./incident/money.js";
import { Notes } from "./incident/notes.js";
import { ClientResponse } from "./incident/response.js";
import { Rules } from "./incident/rules.js";
import { Suggestion } from "./incident/suggestion.js";
import { Timeline } from "./incident/timeline.js";

const REFRESH_MS = 1_000;
const SOON_MS = 5_000;

export default function IncidentPage({ id, query }) {
  const loaded = useLoaded(`incidents/${encodeURIComponent(id)}`);
  const { value: incident, error, reload } = loaded;
  const freshen = useThrottled(reload, REFRESH_MS);
  useEvent("incident", (heard) => heard.id === incident?.id && freshen());
  useEvent("change", freshen);
  useEffect(() => {
    if (incident) title.set(headline(incident));
  }, [incident]);
  if (!incident && error?.status === 404) {
    return html`<${Empty} title="No incident has this id."><a href=${linkTo("incidents", { state: "all" })}>All incidents</a><//>`;
  }
  if (!incident && error) return html`<${Failed} error=${error} what="This incident" onRetry=${reload} />`;
  if (!incident) return html`<${Loading} lines=${12} />`;
  return html`<${Incident} incident=${incident} onChange=${reload} /><${Asked} key=${query.do} incident=${incident} action=${query.do} onChange=${reload} />`;
}

function Incident({ incident, onChange }) {
  return html`
    <${Head} incident=${incident} />
    <${Actions} incident=${incident} onChange=${onChange} />
    <${Suggestion} incident=${incident} onChange=${onChange} />
    <section class="card" aria-labelledby="what-repeats">
      <h2 id="what-repeats">What repeats</h2>
      ${incident.strip?.length ? html`<${Strip} cells=${incident.strip} noun=${incident.strip_unit} isByError=${incident.signal === "same_error"} />` : html`<p class="quiet">No rounds or calls are recorded for this incident.</p>`}
    </section>
    <div class="columns">
      <div>
        <${Captured} id=${incident.id} />
        <${Rules} incident=${incident} />
        <${ClientResponse} response=${incident.told} incident=${incident} />
      </div>
      <div>
        <${Money} incident=${incident} />
        <${Timeline} steps=${incident.steps} mode=${incident.mode} />
        <${Notes} incident=${incident} onChange=${onChange} />
      </div>
    </div>
  `;
}

function Head({ incident }) {
  const opened = Date.parse(incident.opened);
  const lasted = (Date.parse(incident.closed ?? incident.last) - opened) / 1000;
  return html`
    <div class="page-head incident-head">
      <p class="crumb quiet"><a href=${linkTo("incidents")}>Incidents</a> <span aria-hidden="true">/</span> <code>${incident.id}</code></p>
      <h1 tabIndex="-1">${headline(incident)}</h1>
      <p class="badges"><${ActionBadge} incident=${incident} /><${StateBadges} incident=${incident} isNamed /><${Cooldown} until=${incident.cooldown_until} /></p>
    </div>
    <dl class="details">
      <${Fact} name="Caller" value=${incident.caller} link=${callerPage(incident.caller)} />
      <${Fact} name="Project" value=${incident.project} link=${linkTo("incidents", { state: "all", project: incident.project })} />
      <${Fact} name="Session" value=${incident.session} link=${sessionPage(incident.caller, incident.session)} />
      <${Fact} name="Agent" value=${incident.agent} />
      <${Fact} name="Model" value=${incident.model} link=${linkTo("incidents", { state: "all", model: incident.model })} />
      <${Fact} name="Provider" value=${incident.provider} />
      <div><dt>Calls</dt><dd>${count(incident.paid)} paid, ${count(incident.refused)} refused</dd></div>
      <div><dt>Seen</dt><dd>${lasted >= 1 ? `for ${span(lasted)}, since ` : ""}<${Moment} at=${incident.opened} isExact /></dd></div>
      <div><dt>Last call</dt><dd><${Moment} at=${incident.last} /></dd></div>
      <div><dt>Log</dt><dd><a href=${callsOf(incident)}>its calls</a></dd></div>
    </dl>
  `;
}

/** The logged calls of an incident's session, from a minute before it. */
function callsOf({ caller, session, opened, closed }) {
  return linkTo("calls", { caller, session, since: iso(Date.parse(opened) - 60_000), until: closed });
}

function Fact({ name, value, link }) {
  return html`<div><dt>${name}</dt><dd title=${value}>${value && link ? html`<a href=${link}>${value}</a>` : value || NONE}</dd></div>`;
}

function Cooldown({ until }) {
  const from = useObserved(clock);
  if (!until || Date.parse(until) <= from) return null;
  return html`<span class="badge plain" title=${exact(until)}>cooldown ends ${Date.parse(until) - from < SOON_MS ? "now" : relative(until, from)}</span>`;
}
