// Where a conversation is pasted, dropped or taken from the examples, and by which rules it is judged.

import { html, useEffect, useId, useRef, useState } from "../../html.js";
import { get } from "../../api.js";
import { useLoaded } from "../../loaded.js";
import { linkTo } from "../../pages.js";
import { EXAMPLES } from "./example.js";

const MAX_FILE_BYTES = 5 << 20;
const PRESETS = ["default", "aisg", "fairvisor", "fairvisor-throttle", "fairvisor-warn", "tcc", "zelyx", "zelyx-block"];

export function Paste({ incident, isBusy, error, isFolded, onAsk, onStop }) {
  const field = useId();
  const [text, setText] = useState("");
  const [rules, setRules] = useState("");
  const [said, setSaid] = useState("");
  const [isOver, setOver] = useState(false);
  const file = useRef(null);
  const ask = (given) => onAsk({ text: given, ...chosenRules(rules) });
  const put = (given) => {
    setText(given);
    setSaid("");
    ask(given);
  };
  useEffect(() => {
    if (!incident) return;
    get(`incidents/${encodeURIComponent(incident)}/captured`).then(
      (found) => (found.text ? put(found.text) : setSaid("No call of this incident is captured with its content.")),
      (failure) => setSaid(failure.message),
    );
  }, [incident]);
  const take = async (one) => {
    if (!one) return;
    if (one.size > MAX_FILE_BYTES) setSaid(`${one.name} is larger than 5 MB. Use a part of it.`);
    else put(await one.text());
  };
  const drop = (event) => {
    event.preventDefault();
    setOver(false);
    take(event.dataTransfer.files[0]);
  };
  return html`
    <section class="card" aria-labelledby="paste">
      <h2 id="paste">A conversation or a run <span class="quiet">nothing of it is stored, counted or logged</span></h2>
      ${incident && html`<p class="quiet">The captured calls of <a href=${linkTo("incident", {}, { id: incident })}>this incident</a>.</p>`}
      <form onSubmit=${(event) => (event.preventDefault(), ask(text))}>
        <label class="unseen" for=${field}>JSON of a request, messages or a run</label>
        <textarea
          id=${field} class="pasted ${isOver ? "over" : ""}" rows=${isFolded ? 5 : 12} spellcheck="false" value=${text}
          placeholder=${'Paste JSON or JSON lines: a request to any provider, its messages, several requests, or a run as looptrap replay reads it. Or drop a file here.\n\n{"model": "…", "messages": [ … ]}'}
          onInput=${(event) => setText(event.currentTarget.value)}
          onDragOver=${(event) => (event.preventDefault(), setOver(true))} onDragLeave=${() => setOver(false)} onDrop=${drop}
        ></textarea>
        <div class="toolbar">
          ${isBusy
            ? html`<button type="button" class="button" onClick=${onStop}>Stop</button><span class="quiet" role="status">Judging …</span>`
            : html`<button type="submit" class="button primary" disabled=${!text.trim()} title=${text.trim() ? undefined : "Paste something first."}>Judge it</button>`}
          <button type="button" class="button" onClick=${() => file.current.click()}>Open a file …</button>
          <input ref=${file} type="file" class="unseen" tabIndex="-1" aria-label="A file with a conversation or a run" accept=".json,.jsonl,.txt,application/json" onChange=${(event) => take(event.currentTarget.files[0])} />
          <${Rules} value=${rules} onRules=${setRules} />
        </div>
        <p class="examples"><span class="quiet">Examples:</span>
          ${EXAMPLES.map((one) => html`<button type="button" class="button small" key=${one.name} onClick=${() => put(one.text())}>${one.title}</button>`)}
        </p>
      </form>
      ${(said || error) && html`<p class="failed" role="alert">${said || error.message}</p>`}
    </section>
  `;
}

function Rules({ value, onRules }) {
  const projects = useLoaded("projects").value?.projects.filter((one) => one.effective) ?? [];
  return html`
    <label class="inline-field"><span>Judged by</span>
      <select value=${value} onChange=${(event) => onRules(event.currentTarget.value)}>
        <option value="">the rules in effect</option>
        ${projects.length > 0 && html`<optgroup label="As calls of a project">${projects.map((one) => html`<option key=${one.name} value=${`project ${one.name}`}>${one.name}</option>`)}</optgroup>`}
        <optgroup label="A preset">${PRESETS.map((one) => html`<option key=${one} value=${`preset ${one}`}>${one}</option>`)}</optgroup>
      </select>
    </label>
  `;
}

/** "preset tcc" as the API wants it; nothing for the rules in effect. */
function chosenRules(value) {
  const [kind, name] = value.split(" ");
  return name ? { [kind]: name } : {};
}
