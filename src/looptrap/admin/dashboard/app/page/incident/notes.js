// The notes on an incident.

import { change } from "../../api.js";
import { html, useId, useState } from "../../html.js";
import { useObserved } from "../../observed.js";
import { Moment } from "../../part/moment.js";
import { status, whyReadOnly } from "../../status.js";

const MAX_NOTE_CHARS = 2_000;

export function Notes({ incident, onChange }) {
  const reason = whyReadOnly(useObserved(status));
  const notes = incident.notes ?? [];
  return html`
    <section class="card" aria-labelledby="notes">
      <h2 id="notes">Notes</h2>
      ${notes.length === 0 && html`<p class="quiet">There are no notes yet.</p>`}
      <ol class="notes">
        ${notes.map((note, index) => html`
          <li key=${index}><p class="note-text">${note.text}</p><p class="quiet">${note.by}, <${Moment} at=${note.time} /></p></li>
        `)}
      </ol>
      ${reason ? html`<p class="quiet">${reason}</p>` : html`<${Writing} id=${incident.id} onChange=${onChange} />`}
    </section>
  `;
}

function Writing({ id, onChange }) {
  const [state, setState] = useState({ text: "", isBusy: false, error: "" });
  const field = useId();
  const submit = async (event) => {
    event.preventDefault();
    setState({ ...state, isBusy: true, error: "" });
    try {
      await change("POST", `incidents/${encodeURIComponent(id)}/notes`, { text: state.text.trim() });
      setState({ text: "", isBusy: false, error: "" });
      await onChange();
    } catch (error) {
      setState({ ...state, isBusy: false, error: error.message });
    }
  };
  return html`
    <form onSubmit=${submit}>
      <label class="field" for=${field}><span>Add a note</span></label>
      <textarea id=${field} rows="2" maxLength=${MAX_NOTE_CHARS} value=${state.text} onInput=${(event) => setState({ ...state, text: event.currentTarget.value })}></textarea>
      ${state.error && html`<p class="failed" role="alert">${state.error}</p>`}
      <div class="row end"><button type="submit" class="button" disabled=${state.isBusy || !state.text.trim()}>Add note</button></div>
    </form>
  `;
}
