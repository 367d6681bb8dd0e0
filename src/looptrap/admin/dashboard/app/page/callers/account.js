// An account of a budget in words: whose it is, and its amounts.

import { html } from "../../html.js";
import { dollars, tokens } from "../../number.js";
import { linkTo } from "../../pages.js";
import { callerPage, sessionPage } from "../../part/who.js";

const LINKED = ["caller", "project", "session", "model"];

/** One descriptor of an account; `by` has all of them. */
export function Whose({ name, value, by }) {
  const own = { caller: callerPage(value), session: sessionPage(by.caller, value) }[name];
  const link = own ?? (LINKED.includes(name) ? linkTo("callers", { by: name, name: value }) : undefined);
  return html`<span class="quiet">${name} </span>${link ? html`<a href=${link}>${value}</a>` : value}`;
}

export function amount({ unit }, value) {
  return unit === "tokens" ? tokens(value) : dollars(value);
}
