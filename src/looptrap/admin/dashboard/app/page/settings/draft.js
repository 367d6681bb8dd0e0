// A draft of a project's settings: what is in the form, and what it would change. Pure.

import { span } from "../../time.js";

const ACTIONS = ["warn", "throttle", "nudge", "stop", "block"];

/** What can be set of a project at run time, in the order of the form; texts as the form has them. */
export const FIELDS = [
  { name: "detection", label: "Detection", choices: ["on", "shadow", "off"], hint: "“shadow” reports loops and lets every call pass; “off” does not count at all." },
  { name: "threshold", label: "Threshold", isNumber: true, hint: "The number of equal calls at which rules that count across requests take their severest action: 2 to 10,000." },
  { name: "window", label: "Window", isNumber: true, unit: "seconds", hint: "The time in which these rules count equal calls together; for calls in a row, the longest pause after an answer. Up to 2,592,000 seconds, which is 30 days." },
  { name: "cooldown", label: "Cooldown", isNumber: true, unit: "seconds", hint: "How long a call stays refused after a rule has refused it: 0 to 86,400 seconds. For every rule." },
  { name: "action", label: "Action", choices: ACTIONS, hint: "The severest action that any rule may take." },
];

/** The form of a project: what is set at run time, an empty text for what is not. */
export function draftOf(project) {
  const set = project.run_time ?? {};
  return Object.fromEntries(FIELDS.map(({ name }) => [name, set[name] === undefined ? "" : String(set[name])]));
}

/** What the API is sent: what is empty is left out, what is not a number is sent as it is, so that the API reports it. */
export function settingsOf(draft) {
  const given = FIELDS.filter(({ name }) => draft[name].trim() !== "");
  return Object.fromEntries(given.map(({ name, isNumber }) => [name, isNumber ? numberOf(draft[name]) : draft[name]]));
}

export function isSame(draft, project) {
  return JSON.stringify(settingsOf(draft)) === JSON.stringify(settingsOf(draftOf(project)));
}

/** Where the value in effect comes from: here, the file, or neither, which leaves it to each rule. */
export function originOf(project, name) {
  if (project.run_time?.[name] !== undefined) return "set here";
  if (project.file?.[name] !== undefined) return "from the file";
  return name === "detection" ? "by default" : "as each rule says";
}

/** A value in words; without one, each rule decides. */
export function valueWords(field, value) {
  if (value === undefined || value === null) return field.name === "detection" ? "on" : "as each rule says";
  return field.unit ? span(value) : String(value);
}

/** What saving would change, a line each: "threshold: 8 → 12". */
export function changesOf(draft, project) {
  const next = settingsOf(draft);
  return FIELDS.flatMap((field) => {
    const before = project.effective?.[field.name];
    const after = next[field.name] ?? project.file?.[field.name];
    const [was, is] = [before, after].map((value) => valueWords(field, value));
    return was === is ? [] : [`${field.label}: ${was} → ${is}`];
  });
}

/** Mistakes by field, from what the API says of them; under "" those that are of no field. */
export function mistakesOf(error, fields = FIELDS) {
  const found = {};
  for (const { place, message } of error.more?.problems ?? [{ place: "", message: error.message }]) {
    const last = place.split(".").at(-1);
    const name = fields.some((field) => field.name === last) ? last : "";
    found[name] = [found[name], name || !place ? message : `${place}: ${message}`].filter(Boolean).join("; ");
  }
  return found;
}

function numberOf(text) {
  const value = Number(text.trim().replaceAll(",", ""));
  return Number.isFinite(value) ? value : text;
}
