// Who made a call, linked to the page about it.

import { html } from "../html.js";
import { NONE } from "../number.js";
import { linkTo } from "../pages.js";

export function CallerLink({ caller }) {
  return caller ? html`<a href=${callerPage(caller)}>${caller}</a>` : NONE;
}

export function SessionLink({ caller, session }) {
  const link = sessionPage(caller, session);
  return link ? html`<a href=${link}>${session}</a>` : session || NONE;
}

export function callerPage(caller, query = {}) {
  return caller ? linkTo("caller", query, { caller }) : undefined;
}

/** Sessions are known by their caller too: two callers may use the same name. */
export function sessionPage(caller, session) {
  return caller && session ? linkTo("session", {}, { caller, session }) : undefined;
}
