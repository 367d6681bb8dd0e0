// Rounds read for drawing: which of them are equal, and what they are called. Pure.

import { capital } from "./wording.js";

export const HUES = 8;
const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

/**
 * @typedef {{id: string, tools: string[], is_error: boolean, repeats: boolean}} Cell as the API tells it
 * @typedef {{letter: string, hue: number, tools: string[], isError: boolean, numbers: number[]}} Kind
 *   of rounds that came more than once; `numbers` begin with 1
 */

/**
 * Give every kind of round that came more than once a letter and a hue, in the order they came;
 * what came once has neither, so that only what repeats carries colour.
 * @param {Cell[]} cells
 * @returns {{cells: (Cell & {number: number, kind: Kind | null})[], kinds: Kind[]}}
 */
export function readRounds(cells) {
  const numbers = new Map();
  cells.forEach(({ id }, index) => numbers.set(id, [...(numbers.get(id) ?? []), index + 1]));
  const kinds = new Map();
  for (const [id, found] of numbers) {
    if (found.length < 2) continue;
    const { tools, is_error: isError } = cells[found[0] - 1];
    const index = kinds.size;
    kinds.set(id, { letter: letter(index), hue: index % HUES, tools, isError, numbers: found });
  }
  return {
    cells: cells.map((cell, index) => ({ ...cell, number: index + 1, kind: kinds.get(cell.id) ?? null })),
    kinds: [...kinds.values()],
  };
}

/** Say what a round did: "read_file, failed"; without a tool, that it was a call or only words. */
export function didWords(tools, isError, noun = "round") {
  const without = noun === "round" ? "no tool called" : noun;
  return `${tools.length ? tools.join(" + ") : without}${isError ? ", failed" : ""}`;
}

/** Describe one round, and those it equals; for a rule that counts across requests a cell is a call. */
export function roundWords({ number, tools, is_error: isError, kind, repeats }, total, noun = "round") {
  const did = `${capital(noun)} ${number} of ${total}: ${didWords(tools, isError, noun)}`;
  if (!kind) return `${did}. It occurs once.`;
  const others = kind.numbers.filter((other) => other !== number);
  const shown = others.length > 6 ? `${others.slice(0, 6).join(", ")} …` : others.join(", ");
  const same = `${noun === "round" ? "Same call, same result" : "Same"} as ${noun}${others.length > 1 ? "s" : ""} ${shown}`;
  return `${did}. ${same}${repeats ? ": part of the evidence" : ""}.`;
}

/** Describe the strip to screen readers. */
export function stripWords({ cells, kinds }, noun = "round") {
  const repeated = kinds.map((kind) => `${kind.letter}, ${didWords(kind.tools, kind.isError, noun)}, ${kind.numbers.length} times`);
  return `${cells.length} ${noun}s, oldest first. ${repeated.length ? `What repeats: ${repeated.join("; ")}.` : "Nothing repeats."}`;
}

/** Pairs of neighbours among equal rounds, by index, for the arcs. */
export function links(kinds) {
  return kinds.flatMap((kind) =>
    kind.numbers.slice(1).map((number, index) => ({ from: kind.numbers[index] - 1, to: number - 1, kind })),
  );
}

function letter(index) {
  const round = Math.floor(index / LETTERS.length);
  return LETTERS[index % LETTERS.length] + (round ? String(round + 1) : "");
}
