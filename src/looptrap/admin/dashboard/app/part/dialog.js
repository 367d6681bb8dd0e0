// Dialogs: the browser's own, which keep the focus and close on Esc.

import { html, useId, useLayoutEffect, useRef, useState } from "../html.js";

export function Dialog({ title, onClose, children }) {
  const element = useRef(null);
  const isGone = useRef(false);
  const name = useId();
  // Before it is painted: a key pressed at once must find it open.
  useLayoutEffect(() => {
    const shown = element.current;
    shown.showModal();
    return () => {
      isGone.current = true;
      shown.close(); // which gives the focus back to where it came from
    };
  }, []);
  return html`
    <dialog ref=${element} aria-labelledby=${name} onClose=${() => isGone.current || onClose()}>
      <h2 id=${name}>${title}</h2>
      ${children}
    </dialog>
  `;
}

/**
 * Ask before something is done, saying what follows from it. `onConfirm` gets the form's fields;
 * while it runs nothing can be pressed, and why it failed is shown where it was asked. While
 * `isWaiting` there is nothing to confirm yet.
 */
export function Confirm({ title, consequences, verb, isGrave = false, isWaiting = false, onConfirm, onClose, children }) {
  const [state, setState] = useState({ isBusy: false, error: "" });
  const submit = async (event) => {
    event.preventDefault();
    const fields = Object.fromEntries(new FormData(event.currentTarget));
    setState({ isBusy: true, error: "" });
    try {
      await onConfirm(fields);
      onClose();
    } catch (error) {
      setState({ isBusy: false, error: error.message });
    }
  };
  return html`
    <${Dialog} title=${title} onClose=${onClose}>
      <form onSubmit=${submit}>
        ${consequences && html`<p class="consequences">${consequences}</p>`}
        ${children}
        ${state.error && html`<p class="failed" role="alert">${state.error}</p>`}
        <div class="row end">
          <button type="button" class="button" onClick=${onClose}>Cancel</button>
          <button type="submit" class="button ${isGrave ? "grave" : "primary"}" disabled=${state.isBusy || isWaiting}>
            ${state.isBusy ? "Working …" : verb}
          </button>
        </div>
      </form>
    <//>
  `;
}

/** A labelled control of a form; `hint` says what is allowed. */
export function Field({ label, hint, children }) {
  return html`
    <label class="field">
      <span>${label}</span>
      ${children}
      ${hint && html`<small class="quiet">${hint}</small>`}
    </label>
  `;
}
