// Try it: a pasted conversation or run, judged step by step, with the opinion of every rule.

import { send } from "../api.js";
import { html, useEffect, useRef, useState } from "../html.js";
import { announce } from "../part/toast.js";
import { Paste } from "./try/paste.js";
import { Tried } from "./try/tried.js";
import { verdictWords } from "./try/verdict.js";

export default function TryIt({ query }) {
  const [state, setState] = useState({ isBusy: false, tried: null, turn: 0, error: null });
  const asking = useRef(null);
  useEffect(() => () => asking.current?.abort(), []);
  const ask = async (body) => {
    asking.current?.abort();
    const controller = new AbortController();
    asking.current = controller;
    setState((before) => ({ ...before, isBusy: true, error: null }));
    const found = await judged(body, controller.signal);
    if (asking.current !== controller) return;
    setState((before) => ({ isBusy: false, turn: before.turn + 1, ...found }));
    if (found.tried) announce(verdictWords(found.tried));
  };
  return html`
    <div class="page-head"><h1 tabIndex="-1">Try it</h1></div>
    <${Paste} incident=${query.incident} isBusy=${state.isBusy} error=${state.error} isFolded=${Boolean(state.tried)} onAsk=${ask} onStop=${() => asking.current.abort()} />
    ${state.tried && html`<${Tried} key=${state.turn} tried=${state.tried} />`}
  `;
}

async function judged(body, signal) {
  try {
    const answer = await send("POST", "try", { body, signal });
    return { tried: await answer.json(), error: null };
  } catch (error) {
    return { tried: null, error: error.name === "AbortError" ? null : error };
  }
}
