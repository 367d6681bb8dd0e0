// Fields of filters: what they hold is a parameter of the address.

import { html, useEffect, useRef, useState } from "../html.js";
import { refine } from "../router.js";

const TYPED_MS = 250;

/**
 * The filters of a list. On a phone they are folded behind a button, but for a field with the class `grow`.
 * @param {{query: object, names: string[]}} props `names` of the parameters that are filters, but for the period
 */
export function Filters({ query, names, children }) {
  const [isOpen, setOpen] = useState(false);
  const hasPeriod = query.range || query.since || query.until;
  const active = names.filter((name) => query[name]).length + (hasPeriod ? 1 : 0);
  return html`
    <form class=${`filters ${isOpen ? "" : "is-folded"}`} role="search" onSubmit=${(event) => event.preventDefault()}>
      <button type="button" class="button fold" aria-expanded=${isOpen} onClick=${() => setOpen(!isOpen)}>${isOpen ? "Hide filters" : "Filters"}${active > 0 && ` (${active})`}</button>
      ${children}
    </form>
  `;
}

/** One of a few values; `choices` has the words of each. */
export function Choice({ name, label, value, choices }) {
  return html`
    <label><span>${label}</span>
      <select value=${value} onChange=${(event) => refine({ [name]: event.currentTarget.value })}>
        ${Object.entries(choices).map(([one, words]) => html`<option key=${one} value=${one}>${words}</option>`)}
      </select>
    </label>
  `;
}

/** A text filter that is applied when the viewer stops typing. */
export function Typed({ name, type, value = "", placeholder, field }) {
  const own = useRef(null);
  const element = field ?? own;
  const timer = useRef(null);
  useEffect(() => {
    if (document.activeElement !== element.current) element.current.value = value;
  }, [value]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const typed = (event) => {
    const text = event.currentTarget.value.trim();
    clearTimeout(timer.current);
    timer.current = setTimeout(() => refine({ [name]: text }), TYPED_MS);
  };
  return html`<input ref=${element} type=${type} defaultValue=${value} placeholder=${placeholder} autocomplete="off" spellcheck="false" onInput=${typed} />`;
}
