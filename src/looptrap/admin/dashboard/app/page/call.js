// One logged call: who, what it came to, what was decided; nothing of its text.

import { html } from "../html.js";
import { useLoaded } from "../loaded.js";
import { count, counted, latency, NONE } from "../number.js";
import { linkTo } from "../pages.js";
import { VerdictBadge } from "../part/badge.js";
import { CopyButton } from "../part/copy.js";
import { Empty, Failed, Loading } from "../part/state.js";
import { CallerLink, SessionLink } from "../part/who.js";
import { exact } from "../time.js";
import { capital, decided } from "../wording.js";
import { cost } from "./calls/column.js";

export default function CallPage({ id }) {
  const { value: call, error, reload } = useLoaded(`calls/${encodeURIComponent(id)}`);
  if (!call && error?.status === 404) {
    return html`<${Empty} title="No call has this id.">It is too old, or was not logged. <a href=${linkTo("calls")}>All calls</a><//>`;
  }
  if (!call && error) return html`<${Failed} error=${error} what="This call" onRetry=${reload} />`;
  if (!call) return html`<${Loading} lines=${10} />`;
  return html`
    <div class="page-head incident-head">
      <p class="crumb quiet"><a href=${linkTo("calls")}>Calls</a> <span aria-hidden="true">/</span> <code>${call.id}</code></p>
      <h1 tabIndex="-1">${capital(decided(call))}${call.rule ? ` by ${call.rule}` : ""}</h1>
    </div>
    <div class="columns even">
      <${Card} title="Who" facts=${whoFacts(call)} />
      <${Card} title="Decision" facts=${decisionFacts(call)} />
      <${Card} title="Usage" facts=${usageFacts(call)} />
      <${Card} title="Answer" facts=${answerFacts(call)} />
    </div>
  `;
}

function Card({ title, facts }) {
  const name = title.toLowerCase();
  return html`
    <section class="card" aria-labelledby=${name}>
      <h2 id=${name}>${title}</h2>
      <dl class="fact-list">${facts.map(([term, value]) => html`<div key=${term}><dt>${term}</dt><dd>${value || NONE}</dd></div>`)}</dl>
    </section>
  `;
}

function whoFacts(call) {
  return [
    ["Caller", html`<${CallerLink} caller=${call.caller} />`],
    ["Session", html`<${SessionLink} ...${call} />`],
    ["Project", call.project && html`<a href=${linkTo("calls", { project: call.project })}>${call.project}</a>`],
    ["Agent", call.agent && html`<a href=${linkTo("calls", { agent: call.agent })}>${call.agent}</a>`],
    ["Request id", call.request_id && html`<code>${call.request_id}</code> <${CopyButton} text=${call.request_id} label="the request id" />`],
    ...(call.weight > 1 ? [["Stands for", `${counted(call.weight, "call")}: there were too many to log each`]] : []),
  ];
}

function decisionFacts(call) {
  const incidents = call.incidents.map((id) => html`<a key=${id} href=${linkTo("incident", {}, { id })}>${id}</a> `);
  return [
    ["Verdict", html`<${VerdictBadge} call=${call} />`],
    ["In shadow mode", call.shadow && `would ${call.shadow}`],
    ["Rule", call.rule && html`<a href=${linkTo("calls", { rule: call.rule, range: "24h" })}>${call.rule}</a>`],
    ["Policy", call.policy],
    ["Reason", call.reason.replaceAll("_", " ")],
    ["Incident", incidents.length > 0 && incidents],
  ];
}

function usageFacts(call) {
  return [
    ["Model", call.model && html`<a href=${linkTo("calls", { model: call.model })}>${call.model}</a>`],
    ["Provider", call.provider || "not sent"],
    ...(call.provider ? tokenFacts(call) : []),
    ["Cost", cost(call)],
  ];
}

function tokenFacts(call) {
  return [
    ["Tokens in", `${count(call.input_tokens)}${call.cached_tokens ? `, ${count(call.cached_tokens)} of them cached` : ""}`],
    ["Tokens out", `${count(call.output_tokens)}${call.is_estimated ? " (estimated)" : ""}`],
  ];
}

function answerFacts(call) {
  return [
    ["Time", exact(call.time)],
    ["Status", call.status || "none was sent by this gateway"],
    ["Latency", latency(call.latency)],
    ["First byte", latency(call.first_byte)],
    ["Streamed", call.is_stream ? "yes" : "no"],
    ["Complete", call.is_cut_off ? "no: it was cut off" : "yes"],
    ["API", call.dialect.replaceAll("_", " ")],
  ];
}
