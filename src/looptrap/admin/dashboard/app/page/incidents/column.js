// The columns of the list of incidents.

import { html } from "../../html.js";
import { count } from "../../number.js";
import { linkTo } from "../../pages.js";
import { ActionBadge, StateBadges } from "../../part/badge.js";
import { Moment } from "../../part/moment.js";
import { CallerLink } from "../../part/who.js";
import { headline, saved, spent } from "../../wording.js";

/** The columns; `onChoose(id, isChosen)` is called for the box of a row. */
export const columnsOf = (onChoose) => [
  {
    title: "Select",
    isBox: true,
    render: (one) => html`<input type="checkbox" aria-label=${`Select ${one.id}`} onChange=${(event) => onChoose(one.id, event.currentTarget.checked)} />`,
  },
  {
    title: "What repeats",
    isWide: true,
    render: (one) => html`
      <a class="row-link" href=${linkTo("incident", {}, { id: one.id })}>${headline(one)}</a>
      <${Under} parts=${[one.rule, one.model]} />
    `,
  },
  {
    title: "Who",
    isName: true,
    render: (one) => html`
      <${CallerLink} caller=${one.caller} />
      <${Under} parts=${[one.agent, one.project, one.session]} />
    `,
  },
  { title: "Action", render: (one) => html`<${ActionBadge} incident=${one} />` },
  { title: "State", render: (one) => html`<${StateBadges} incident=${one} />` },
  { title: "Calls", isNumber: true, render: (one) => count(one.hits) },
  { title: "Refused", isNumber: true, render: (one) => count(one.refused) },
  { title: "Spent", isNumber: true, render: spent },
  { title: "Saved", isNumber: true, render: saved },
  { title: "Last call", isNumber: true, render: (one) => html`<${Moment} at=${one.last} />` },
];

function Under({ parts }) {
  const words = parts.filter(Boolean).join(" · ");
  return html`<span class="under quiet" title=${words}>${words}</span>`;
}
