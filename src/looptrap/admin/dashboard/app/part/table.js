// Tables: sortable if all rows are loaded, usable with the arrow keys, cards on a phone.

import { html, useMemo, useState } from "../html.js";
import { counted } from "../number.js";

/**
 * @typedef {object} Column
 * @property {string} title
 * @property {(row: any) => any} render
 * @property {boolean} [isNumber] to be set to the right
 * @property {boolean} [isWide] takes what room is left
 * @property {boolean} [isName] a name of any length, cut where it is long
 * @property {boolean} [isBox] a box to select the row
 * @property {boolean} [isAction] buttons, which need no title on a phone
 * @property {(row: any) => number | string} [value] by which its rows are sorted; only of complete lists
 */

/** The arrow keys move between the first links of the rows. */
export function Table({ caption, columns, rows, keyOf, sortedBy = null }) {
  const [order, setOrder] = useState({ title: sortedBy, isUp: false });
  const shown = useMemo(() => sorted(rows, columns, order), [rows, columns, order]);
  // A row that is the same object is drawn once: thousands of them stay quick while one changes.
  const drawn = useMemo(() => new WeakMap(), [columns]);
  const draw = (row) => {
    if (!drawn.has(row)) drawn.set(row, html`<${Row} key=${keyOf(row)} row=${row} columns=${columns} />`);
    return drawn.get(row);
  };
  const turn = (title) => setOrder({ title, isUp: order.title === title && !order.isUp });
  return html`
    <div class="table-frame">
      <table onKeyDown=${walk}>
        <caption class="unseen">${caption}</caption>
        <thead>
          <tr>
            ${columns.map((column) => html`<${Head} key=${column.title} column=${column} order=${order} onTurn=${turn} />`)}
          </tr>
        </thead>
        <tbody>
          ${shown.map(draw)}
        </tbody>
      </table>
    </div>
  `;
}

function Head({ column, order, onTurn }) {
  const kind = kindOf(column);
  if (column.isBox) return html`<th scope="col" class=${kind}><span class="unseen">${column.title}</span></th>`;
  if (!column.value) return html`<th scope="col" class=${kind}>${column.title}</th>`;
  const isMine = order.title === column.title;
  const direction = order.isUp ? "ascending" : "descending";
  return html`
    <th scope="col" class=${kind} aria-sort=${isMine ? direction : "none"}>
      <button type="button" class="sort" onClick=${() => onTurn(column.title)}>
        ${column.title}<span aria-hidden="true">${isMine ? (order.isUp ? " ↑" : " ↓") : ""}</span>
      </button>
    </th>
  `;
}

function Row({ row, columns }) {
  return html`
    <tr>
      ${columns.map((column) => html`<td key=${column.title} class=${kindOf(column)} data-title=${column.title}>${column.render(row)}</td>`)}
    </tr>
  `;
}

/** The number of rows, and the button that loads more. */
export function More({ shown, noun, plural, hasMore, isBusy, onMore }) {
  return html`
    <div class="more">
      <span class="quiet">${counted(shown, noun, plural)} shown${hasMore ? "" : " (all)"}</span>
      ${hasMore && html`<button type="button" class="button" disabled=${isBusy} onClick=${onMore}>${isBusy ? "Loading …" : "Load more"}</button>`}
    </div>
  `;
}

function kindOf(column) {
  return [column.isNumber && "number", column.isWide && "wide", column.isName && "name", column.isAction && "action", column.isBox && "box"].filter(Boolean).join(" ") || undefined;
}

function sorted(rows, columns, { title, isUp }) {
  const value = columns.find((column) => column.title === title)?.value;
  if (!value) return rows;
  const sign = isUp ? 1 : -1;
  return [...rows].sort((one, other) => sign * compared(value(one), value(other)));
}

function compared(one, other) {
  if (one === other) return 0;
  // What is not known comes after everything that is.
  if (one === null || one === undefined) return -1;
  if (other === null || other === undefined) return 1;
  return one < other ? -1 : 1;
}

function walk(event) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  const row = event.target.closest?.("tbody tr");
  if (!step || !row || event.target.matches("input, select, textarea")) return;
  const next = step > 0 ? row.nextElementSibling : row.previousElementSibling;
  next?.querySelector("a")?.focus();
  event.preventDefault();
}
