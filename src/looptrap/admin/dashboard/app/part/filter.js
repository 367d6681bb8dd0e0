// Fields of filters: what they hold is a parameter of the address.

import { html, useEffect, useRef } from "../html.js";
import { refine } from "../router.js";

const TYPED_MS = 250;

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
