// A draft of one rule: what is in its form, and what that changes in the file's. Pure.

import { span } from "../../time.js";

export const ACTIONS = ["warn", "throttle", "nudge", "stop", "block"];

/** Numbers that some rules have, beside their thresholds. */
export const NUMBERS = [
  { name: "window", label: "Window", unit: "seconds", hint: "The time in which equal calls count together; for calls in a row, the longest pause after an answer." },
  { name: "rounds", label: "Rounds", unit: "latest rounds", hint: "How far back the rule looks in the history of a call." },
  { name: "cooldown", label: "Cooldown", unit: "seconds", hint: "How long a call stays refused after the rule has refused it." },
];

/** The form, as texts: what is in effect. */
export function draftOf({ effective }) {
  const steps = ACTIONS.map((action) => [action, textOf(effective.thresholds?.[action])]);
  const numbers = numbersOf(effective).map(({ name }) => [name, textOf(effective[name])]);
  return { enabled: effective.enabled !== false, ...Object.fromEntries([...steps, ...numbers]) };
}

/** The numbers that this rule has. */
export function numbersOf(rule) {
  return NUMBERS.filter(({ name }) => typeof rule[name] === "number");
}

/** What the API is sent: only what differs from the file, and settings made here that the form does not have. */
export function changeOf(draft, { file, run_time: set }) {
  const known = ["enabled", "thresholds", "threshold", "action", ...NUMBERS.map(({ name }) => name)];
  const others = Object.entries(set ?? {}).filter(([name]) => !known.includes(name));
  const thresholds = Object.fromEntries(ACTIONS.filter((action) => draft[action].trim()).map((action) => [action, numberOf(draft[action])]));
  const numbers = numbersOf(file).map(({ name }) => [name, draft[name].trim() === "" ? file[name] : numberOf(draft[name])]);
  const wanted = { enabled: draft.enabled, thresholds, ...Object.fromEntries(numbers) };
  const differing = Object.entries(wanted).filter(([name, value]) => !isEqual(value, file[name]));
  return Object.fromEntries([...others, ...differing]);
}

/** What saving would change in effect, a line each. */
export function linesOf(change, { file, effective }) {
  const after = { ...file, ...change };
  return ["enabled", "thresholds", ...NUMBERS.map(({ name }) => name)]
    .filter((name) => !isEqual(after[name], effective[name]))
    .map((name) => `${LABELS[name]}: ${wordsOf(name, effective[name])} → ${wordsOf(name, after[name])}`);
}

/** "warn at 3, block at 6"; "1 min" */
export function wordsOf(name, value) {
  if (name === "enabled") return value ? "on" : "off";
  if (name === "thresholds") return stepsOf(value).map(([action, at]) => `${action} at ${at}`).join(", ") || "no action";
  return name === "rounds" ? String(value) : span(value);
}

export function isEqual(one, other) {
  const plain = (value) => JSON.stringify(value !== null && typeof value === "object" && !Array.isArray(value) ? stepsOf(value) : value);
  return plain(one) === plain(other);
}

function stepsOf(thresholds) {
  return ACTIONS.filter((action) => thresholds?.[action] !== undefined).map((action) => [action, thresholds[action]]);
}

const LABELS = { enabled: "Rule", thresholds: "Actions", window: "Window", rounds: "Rounds", cooldown: "Cooldown" };

function textOf(value) {
  return value === undefined || value === null ? "" : String(value);
}

function numberOf(text) {
  const value = Number(text.trim().replaceAll(",", ""));
  return Number.isFinite(value) ? value : text;
}
