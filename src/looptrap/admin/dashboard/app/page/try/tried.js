// What was judged: the rounds as a strip, then step by step what each rule counts.

import { html, useEffect, useMemo, useRef, useState } from "../../html.js";
import { counted } from "../../number.js";
import { ActionBadge, Badge } from "../../part/badge.js";
import { Strip } from "../../part/strip.js";
import { Opinions } from "./opinions.js";
import { Steps } from "./steps.js";
import { firstRefused, isOfErrors, verdictWords } from "./verdict.js";

const MOVES = { ArrowRight: 1, ArrowLeft: -1, Home: -1e6, End: 1e6 };

export function Tried({ tried }) {
  const { steps } = tried;
  // Here `repeats` adds nothing to the letters: both mean that a round occurs again.
  const strip = useMemo(() => tried.strip.map((cell) => ({ ...cell, repeats: false })), [tried]);
  const [at, setAt] = useState(tried.at ?? steps.length - 1);
  const refused = firstRefused(steps);
  const numbers = useMemo(() => stepsOfCells(steps, strip), [steps]);
  const move = (step) => setAt((before) => Math.min(steps.length - 1, Math.max(0, before + step)));
  useArrows(move);
  const cell = numbers.indexOf(at) + 1;
  return html`
    <section class="card" aria-labelledby="verdict">
      <div class="row between">
        <h2 id="verdict" class="tried-verdict">${verdictWords(tried)}</h2>
        ${tried.at === null ? html`<${Badge} tone="good">passes<//>` : html`<${ActionBadge} incident=${{ action: tried.verdict.action, mode: "trial" }} />`}
      </div>
      <p class="facts quiet">
        <span>${tried.dialect.replace("_", " ")}</span><span>${tried.model}</span>
        <span>${counted(steps.length, "step")}</span><span>${counted(tried.rules.length, "rule")} checked</span>
      </p>
      ${tried.limits.length > 0 && html`<ul class="limits quiet">${tried.limits.map((one) => html`<li key=${one}>${one}</li>`)}</ul>`}
      ${strip.length > 0
        ? html`<div class="tried-strip"><${Strip} cells=${strip} isByError=${isOfErrors(tried)} current=${cell || undefined} onChoose=${(number) => setAt(numbers[number - 1])} /></div>`
        : html`<p class="quiet">There is no tool call and no answer, so there are no rounds to show.</p>`}
    </section>
    <div class="columns try-columns">
      <${Opinions} tried=${tried} at=${at} onMove=${move} />
      <${Steps} steps=${steps} at=${at} refused=${refused} onChoose=${setAt} />
    </div>
  `;
}

/** The index of the step that each cell of the strip shows: the latest steps that have a round. */
function stepsOfCells(steps, strip) {
  const withRound = steps.filter((step) => step.strip_id !== null).map((step) => step.index);
  return strip.length ? withRound.slice(-strip.length) : [];
}

/** Arrow keys go from step to step, unless they mean something where the focus is. */
function useArrows(move) {
  const latest = useRef(move);
  latest.current = move;
  useEffect(() => {
    const pressed = (event) => {
      const isTaken = event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey;
      const isTyping = event.target.closest?.("input, select, textarea, dialog, .strip");
      if (isTaken || isTyping || !MOVES[event.key]) return;
      event.preventDefault();
      latest.current(MOVES[event.key]);
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
}
