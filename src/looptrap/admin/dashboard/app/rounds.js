// Rounds read for drawing: which of them are equal, and what they are called. Pure.

import { capital } from "./wording.js";

export const HUES = 8;
const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
const MOST_NUMBERS = 6;

/** What happened to a history before a round, in a word. */
export const BREAKS = { compaction: "compacted", trim: "trimmed", restart: "restarted" };
const FIRST_AFTER = {
  compaction: "the first after the history was compacted",
  trim: "the first after older rounds were left out",
  restart: "the first after the run began again",
};

/**
 * @typedef {{id: string, tools: string[], is_error: boolean, repeats: boolean, after: "" | keyof BREAKS, error: string}} Cell as the API has it
 * @typedef {{letter: string, hue: number, tools: string[], isError: boolean, sameError: boolean, numbers: number[]}} Kind
 *   of rounds that came more than once; `numbers` begin with 1
 */

/**
 * Give every kind of round that came more than once a letter and a hue, in the order they came;
 * what came once has neither, so that only what repeats carries colour.
 * @param {Cell[]} cells
 * @param {boolean} isByError whether rounds with the same error are of one kind, whatever was called
 * @returns {{cells: (Cell & {number: number, kind: Kind | null})[], kinds: Kind[]}}
 */
export function readRounds(cells, isByError = false) {
  const kindOf = ({ id, error }) => (isByError && error ? `error ${error}` : id);
  const numbers = new Map();
  cells.forEach((cell, index) => numbers.set(kindOf(cell), [...(numbers.get(kindOf(cell)) ?? []), index + 1]));
  const kinds = new Map();
  for (const [id, found] of numbers) {
    if (found.length < 2) continue;
    const { tools, is_error: isError } = cells[found[0] - 1];
    const index = kinds.size;
    const sameError = isByError && isError;
    const names = sameError ? [...new Set(found.flatMap((number) => cells[number - 1].tools))] : tools;
    kinds.set(id, { letter: letter(index), hue: index % HUES, tools: names, isError, sameError, numbers: found });
  }
  return {
    cells: cells.map((cell, index) => ({ ...cell, number: index + 1, kind: kinds.get(kindOf(cell)) ?? null })),
    kinds: [...kinds.values()],
  };
}

/** Say what a round did: "read_file, failed"; without a tool, that it was a call or only words. */
export function didWords(tools, isError, noun = "round") {
  const without = noun === "round" ? "no tool called" : noun;
  return `${tools.length ? tools.join(" + ") : without}${isError ? ", failed" : ""}`;
}

/** Describe one round, and those it equals; for a rule that counts across requests a cell is a call. */
export function roundWords({ number, tools, is_error: isError, kind, repeats, after }, total, noun = "round") {
  const place = after ? `, ${FIRST_AFTER[after]}` : "";
  const did = `${capital(noun)} ${number} of ${total}${place}: ${didWords(tools, isError, noun)}`;
  if (!kind) return `${did}. It occurs once.`;
  const others = kind.numbers.filter((other) => other !== number);
  const alike = kind.sameError ? "Same error" : "Same call, same result";
  const same = `${noun === "round" ? alike : "Same"} as ${numbered(others, noun)}`;
  return `${did}. ${same}${repeats ? ": part of the evidence" : ""}.`;
}

/** Describe the strip to screen readers. */
export function stripWords({ cells, kinds }, noun = "round") {
  const repeated = kinds.map((kind) => `${kind.letter}, ${didWords(kind.tools, kind.isError, noun)}, ${kind.numbers.length} times`);
  const repeats = repeated.length ? `What repeats: ${repeated.join("; ")}.` : "Nothing repeats.";
  return [`${cells.length} ${noun}s, oldest first.`, repeats, breakWords(cells)].filter(Boolean).join(" ");
}

/** Say where a history was compacted or trimmed, or its run began again; empty where it was not. */
export function breakWords(cells) {
  const told = Object.entries(BREAKS).map(([after, word]) => {
    const numbers = cells.filter((cell) => cell.after === after).map((cell) => cell.number);
    return numbers.length ? `${capital(word)} before ${numbered(numbers, "round")}.` : "";
  });
  return told.filter(Boolean).join(" ");
}

/** Pairs of neighbours among equal rounds, by index, for the arcs. */
export function links(kinds) {
  return kinds.flatMap((kind) =>
    kind.numbers.slice(1).map((number, index) => ({ from: kind.numbers[index] - 1, to: number - 1, kind })),
  );
}

function numbered(numbers, noun) {
  const shown = numbers.length > MOST_NUMBERS ? `${numbers.slice(0, MOST_NUMBERS).join(", ")} …` : numbers.join(", ");
  return `${noun}${numbers.length > 1 ? "s" : ""} ${shown}`;
}

function letter(index) {
  const round = Math.floor(index / LETTERS.length);
  return LETTERS[index % LETTERS.length] + (round ? String(round + 1) : "");
}
