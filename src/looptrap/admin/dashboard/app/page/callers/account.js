// An account of a budget in words: whose it is, and its amounts.

import { html } from "../../html.js";
import { dollars, tokens } from "../../number.js";
import { linkTo } from "../../pages.js";

const LINKED = ["caller", "project", "session", "model"];

export function Whose({ name, value }) {
  return html`<span class="quiet">${name} </span>${LINKED.includes(name) ? html`<a href=${linkTo("callers", { by: name, name: value })}>${value}</a>` : value}`;
}

export function amount({ unit }, value) {
  return unit === "tokens" ? tokens(value) : dollars(value);
}
