// The strip: rounds as cells in which equal ones share a colour and a letter, tied by arcs. A cycle
// is a pattern of arcs, seen before anything is read.

import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../html.js";
import { counted } from "../number.js";
import { BREAKS, breakWords, didWords, readRounds, roundWords, stripWords } from "../rounds.js";
import { Arcs, arcRoom } from "./arc.js";

const MIN_PITCH_PX = 24; // px of a cell and its gap, as a finger needs: below it, rows are made
const MAX_PITCH_PX = 40;
const ROWS_PITCH_PX = 28;

/**
 * @param {{cells: import("../rounds.js").Cell[], noun?: "round" | "call", isByError?: boolean, current?: number, onChoose?: (number: number) => void}} props
 *   cells are the latest, oldest first; one can be the current one, and be chosen with a click or a key;
 *   `isByError` colours those that failed by their error
 */
export function Strip({ cells, noun = "round", isByError = false, current, onChoose }) {
  const read = useMemo(() => readRounds(cells, isByError), [cells, isByError]);
  const [frame, width] = useWidth();
  const [at, setAt] = useState({ number: cells.length, isShown: false });
  const { pitch, columns } = layout(width, cells.length);
  const rows = inRows(read.cells, columns);
  const chosen = at.isShown ? read.cells[at.number - 1] : null;
  const point = (number) => setAt({ number, isShown: true });
  useEffect(() => {
    if (current) setAt({ number: current, isShown: false });
  }, [current]);
  const move = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns, Home: -1e6, End: 1e6 }[event.key];
    if (!step) return;
    event.preventDefault();
    const number = Math.min(cells.length, Math.max(1, at.number + step));
    point(number);
    onChoose?.(number);
    frame.current.querySelector(`[data-number="${number}"]`)?.focus();
  };
  return html`
    <figure class="strip">
      <div
        class="strip-rows" ref=${frame} role="group" aria-label=${stripWords(read, noun)}
        onKeyDown=${move} onMouseLeave=${() => setAt({ ...at, isShown: false })}
      >
        ${width > 0 && rows.map((row, index) => html`
          <div class="strip-row" key=${index} style=${{ "--pitch": `${pitch}px`, "--room": `${arcRoom(read.kinds, pitch)}px` }}>
            <${Arcs} kinds=${read.kinds} first=${index * columns} length=${row.length} pitch=${pitch} chosen=${chosen?.kind} />
            <div class="strip-cells">
              ${row.map((cell) => html`
                ${cell.after && html`<${Break} key=${`before-${cell.number}`} after=${cell.after} />`}
                <${Round} key=${cell.number} cell=${cell} total=${cells.length} noun=${noun} isRoving=${cell.number === at.number} isDimmed=${chosen?.kind && chosen.kind !== cell.kind} isCurrent=${cell.number === current} onPoint=${point} onChoose=${onChoose} />
              `)}
            </div>
          </div>
        `)}
      </div>
      <figcaption>
        <p class="strip-said" aria-live="off">${chosen ? roundWords(chosen, cells.length, noun) : summary(read, noun)}</p>
        <${Legend} kinds=${read.kinds} cells=${read.cells} noun=${noun} />
      </figcaption>
    </figure>
  `;
}

function Round({ cell, total, noun, isRoving, isDimmed, isCurrent, onPoint, onChoose }) {
  const classes = ["cell", ...marks(cell), isDimmed && "dimmed", onChoose && "choosable"].filter(Boolean).join(" ");
  return html`
    <button
      type="button" class=${classes} data-number=${cell.number} tabIndex=${isRoving ? 0 : -1}
      aria-label=${roundWords(cell, total, noun)} aria-current=${isCurrent ? "step" : undefined}
      onMouseEnter=${() => onPoint(cell.number)} onFocus=${() => onPoint(cell.number)} onClick=${() => (onPoint(cell.number), onChoose?.(cell.number))}
    ><span class="face">${cell.kind?.letter ?? "·"}</span></button>
  `;
}

/** A line between two rounds; the round after it says the same to screen readers. */
function Break({ after }) {
  return html`<span class="break ${after}" title=${BREAKS[after]} aria-hidden="true"></span>`;
}

function Legend({ kinds, cells, noun }) {
  const breaks = Object.keys(BREAKS).filter((after) => cells.some((cell) => cell.after === after));
  if (!kinds.length && !breaks.length) return null;
  const hasErrors = cells.some((cell) => cell.is_error);
  const hasEvidence = cells.some((cell) => cell.repeats);
  return html`
    <ul class="strip-legend">
      ${kinds.slice(0, 8).map((kind) => html`
        <li key=${kind.letter}><span class="cell hue-${kind.hue} ${kind.isError ? "error" : ""}"><span class="face">${kind.letter}</span></span>
          ${didWords(kind.tools, kind.isError, noun)} <span class="quiet">${counted(kind.numbers.length, "time")}</span></li>
      `)}
      ${kinds.length > 8 && html`<li class="quiet">and ${kinds.length - 8} more</li>`}
      ${hasErrors && html`<li class="quiet"><span class="cell once error"><span class="face"></span></span> cut corner: failed</li>`}
      ${hasEvidence && html`<li class="quiet"><span class="cell once repeats"><span class="face"></span></span> ring: part of the evidence</li>`}
      ${breaks.map((after) => html`<li key=${after} class="quiet"><${Break} after=${after} /> line: ${BREAKS[after]}</li>`)}
    </ul>
  `;
}

/** The same, small and still: for lists. The latest rounds only. */
export function MiniStrip({ cells, isByError = false, most = 24 }) {
  const read = useMemo(() => readRounds(cells, isByError), [cells, isByError]);
  return html`
    <span class="mini-strip" role="img" aria-label=${stripWords(read)}>
      ${read.cells.slice(-most).map((cell) => html`${cell.after && html`<${Break} key=${`before-${cell.number}`} after=${cell.after} />`}<span key=${cell.number} class=${["cell", ...marks(cell)].join(" ")}><span class="face"></span></span>`)}
    </span>
  `;
}

function marks(cell) {
  return [cell.kind ? `hue-${cell.kind.hue}` : "once", cell.is_error && "error", cell.repeats && "repeats"].filter(Boolean);
}

function summary({ cells, kinds }, noun) {
  const repeated = kinds.reduce((sum, kind) => sum + kind.numbers.length, 0);
  const all = `${counted(cells.length, noun)}, oldest first`;
  const some = repeated === cells.length ? "all" : repeated;
  const alike = kinds[0]?.sameError ? "failed the same way" : "are equal";
  const equal = repeated
    ? `${all}: ${some} of them ${kinds.length === 1 ? alike : `repeat ${kinds.length} different ones`}.`
    : `${all}. No two of them are equal.`;
  return `${equal} ${breakWords(cells)}`.trim();
}

function layout(width, length) {
  const pitch = Math.min(MAX_PITCH_PX, Math.floor(width / Math.max(length, 1)));
  if (pitch >= MIN_PITCH_PX) return { pitch, columns: Math.max(length, 1) };
  return { pitch: ROWS_PITCH_PX, columns: Math.max(1, Math.floor(width / ROWS_PITCH_PX)) };
}

function inRows(cells, columns) {
  const number = Math.ceil(cells.length / columns);
  return Array.from({ length: number }, (_, row) => cells.slice(row * columns, (row + 1) * columns));
}

function useWidth() {
  const element = useRef(null);
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    setWidth(element.current.clientWidth);
    const observer = new ResizeObserver(([entry]) => setWidth(Math.floor(entry.contentRect.width)));
    observer.observe(element.current);
    return () => observer.disconnect();
  }, []);
  return [element, width];
}
