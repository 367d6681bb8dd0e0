// What if: the draft tried on captured calls before it is saved.

import { send } from "../../api.js";
import { html, useEffect, useRef, useState } from "../../html.js";
import { Empty } from "../../part/state.js";
import { Copyable } from "../../part/copy.js";
import { iso, now } from "../../time.js";
import { Compared } from "./compared.js";

const SPANS = [
  { name: "latest", title: "the latest 5,000", more: () => ({}) },
  { name: "more", title: "the latest 20,000", more: () => ({ limit: 20_000 }) },
  { name: "1d", title: "of the last 24 hours", more: () => ({ since: iso(now() - 86_400_000), limit: 20_000 }) },
  { name: "7d", title: "of the last 7 days", more: () => ({ since: iso(now() - 604_800_000), limit: 20_000 }) },
];

/** `scopes` are the settings to try, by the calls they apply to; `onMistakes` gets an error of the API. */
export function WhatIf({ scopes, isClean, onMistakes }) {
  const [state, setState] = useState({ isBusy: false, compared: null, triedKey: "", error: null });
  const [chosen, setChosen] = useState({ scope: scopes[0].name, span: SPANS[0] });
  const asking = useRef(null);
  useEffect(() => () => asking.current?.abort(), []);
  const { settings } = scopes.find(({ name }) => name === chosen.scope);
  const key = JSON.stringify([settings, chosen]);
  const ask = async () => {
    asking.current = new AbortController();
    setState({ ...state, isBusy: true, error: null });
    try {
      const answer = await send("POST", "what-if", { body: { settings, ...chosen.span.more() }, signal: asking.current.signal });
      setState({ isBusy: false, compared: await answer.json(), triedKey: key, error: null });
    } catch (error) {
      if (error.more?.problems) onMistakes(error);
      const why = error.name === "AbortError" || error.more?.problems ? null : error;
      setState({ isBusy: false, compared: null, triedKey: "", error: why });
    }
  };
  return html`
    <section class="card" aria-labelledby="what-if">
      <h2 id="what-if">What if <span class="quiet">try the settings above on captured calls before you save them</span></h2>
      <div class="toolbar">
        <label class="inline-field"><span>Calls</span>
          <select value=${chosen.span.name} onChange=${(event) => setChosen({ ...chosen, span: SPANS.find((one) => one.name === event.currentTarget.value) })}>
            ${SPANS.map((one) => html`<option key=${one.name} value=${one.name}>${one.title}</option>`)}
          </select>
        </label>
        ${scopes.length > 1 && html`
          <label class="inline-field"><span>Apply to</span>
            <select value=${chosen.scope} onChange=${(event) => setChosen({ ...chosen, scope: event.currentTarget.value })}>
              ${scopes.map(({ name, title }) => html`<option key=${name} value=${name}>${title}</option>`)}
            </select>
          </label>`}
        ${state.isBusy
          ? html`<button type="button" class="button" onClick=${() => asking.current.abort()}>Stop</button><span class="quiet" role="status">Judging captured calls; this takes some seconds.</span>`
          : html`<button type="button" class="button primary" onClick=${ask}>Try on captured calls</button>`}
      </div>
      ${isClean && !state.compared && !state.error && html`<p class="quiet">You have changed nothing above, so both columns will be the same.</p>`}
      ${state.error && html`<${Why} error=${state.error} />`}
      ${state.compared && html`
        ${state.triedKey !== key && html`<p class="quiet">These numbers belong to an earlier draft. Try again to see those of this one.</p>`}
        <${Compared} compared=${state.compared} />
      `}
    </section>
  `;
}

function Why({ error }) {
  if (error.code !== "no_capture") return html`<p class="failed" role="alert">${error.message}</p>`;
  return html`
    <${Empty} title="No call is captured yet.">
      <p>Start the gateway with this command, wait for calls, and try again. It captures digests and no text, unless <code>capture = "content"</code> is set.</p>
      <${Copyable} text="looptrap serve --capture calls" label="command that captures calls" />
    <//>
  `;
}
