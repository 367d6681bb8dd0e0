// The columns of lists of calls.

import { html } from "../../html.js";
import { compact, count, dollars, latency, NONE } from "../../number.js";
import { linkTo } from "../../pages.js";
import { VerdictBadge } from "../../part/badge.js";
import { CallerLink, SessionLink } from "../../part/who.js";
import { brief, exact } from "../../time.js";

const TIME = {
  title: "Time",
  render: (one) => html`
    <a class="row-link" href=${linkTo("call", {}, { id: one.id })}><time dateTime=${one.time} title=${exact(one.time)}>${brief(one.time)}</time></a>
    ${one.weight > 1 && html`<span class="under quiet">one of ${count(one.weight)}</span>`}
  `,
};

const WHO = {
  title: "Caller",
  isWide: true,
  render: (one) => html`<${CallerLink} caller=${one.caller} /><span class="under quiet" title=${under(one)}>${one.session && html`<${SessionLink} ...${one} />`}${one.session && one.agent && " · "}${one.agent}</span>`,
};

const SESSION = { title: "Session", isWide: true, render: (one) => html`<${SessionLink} ...${one} /><span class="under quiet">${one.agent}</span>` };

const MODEL = { title: "Model", isName: true, render: (one) => html`${one.model || NONE}<span class="under quiet">${one.provider || "not sent"}</span>` };

const REST = [
  { title: "Verdict", render: (one) => html`<${VerdictBadge} call=${one} />${one.rule && html`<span class="under quiet">${one.rule}</span>`}` },
  { title: "Status", isNumber: true, render: (one) => one.status || NONE },
  { title: "Tokens", isNumber: true, render: (one) => html`<${Tokens} call=${one} />` },
  { title: "Cost", isNumber: true, render: cost },
  { title: "Latency", isNumber: true, render: (one) => latency(one.latency) },
];

/** Of all callers. */
export const COLUMNS = [TIME, WHO, MODEL, ...REST];

/** Of one caller. */
export const COLUMNS_OF_CALLER = [TIME, SESSION, MODEL, ...REST];

/** Of one session, which has one agent and mostly one model. */
export const COLUMNS_OF_SESSION = [TIME, { ...MODEL, isWide: true }, ...REST];

/** What a call cost; a dash for one that was not sent. */
export function cost(call) {
  return call.provider ? dollars(call.cost_usd) : NONE;
}

function Tokens({ call }) {
  if (!call.provider) return NONE;
  return html`<span title=${`${count(call.input_tokens)} in, ${count(call.output_tokens)} out`}>${compact(call.input_tokens + call.output_tokens)}</span>`;
}

function under({ session, agent }) {
  return [session, agent].filter(Boolean).join(" · ");
}
