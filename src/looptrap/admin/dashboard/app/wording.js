// Incidents in words, as plain text.

import { count, dollars, NONE } from "./number.js";

const COUNTED = {
  conversation: "The same conversation",
  request: "The same request",
  session: "The same session",
  tool: "The same tool call",
};

const BROUGHT = {
  repeat: "the same result",
  same_error: "the same error",
  mutating_repeat: "a result that only grows or shifts,",
  near_repeat: "similar calls without success,",
  stagnation: "no new result",
  unknown_tool: "a tool that is not offered",
};

/** Whether a signal counts calls, rather than reading rounds from the history of one. */
function isCounted({ signal }) {
  return signal in COUNTED;
}

/** Say in one line what repeats: "read_file → the same error 7 times". */
export function headline(incident) {
  const { signal, tool } = incident;
  const times = `${count(Math.max(incident.count, 1))} times`;
  if (isCounted(incident)) {
    const what = signal === "tool" && tool ? `${tool} → called the same way` : COUNTED[signal];
    return `${what}, ${count(incident.hits)} times`;
  }
  if (tool && signal in BROUGHT) return `${tool} → ${BROUGHT[signal]} ${times}`;
  // The strip shows what is equal; tool names are not changed.
  const seen = incident.evidence?.[0]?.what.replace(", with equal arguments and results,", ",");
  return seen || incident.message || `${incident.rule || "A rule"} tripped`;
}

const DONE = {
  warn: "warned",
  throttle: "throttled",
  nudge: "nudged",
  stop: "stopped",
  block: "refused",
};

const WOULD = {
  warn: "would have been warned",
  throttle: "would have been throttled",
  nudge: "would have been nudged",
  stop: "would have been stopped",
  block: "would have been refused",
};

/** Say what was done about it, or in shadow mode would have been, or on trial would be: "refused", "would be refused". */
export function done({ action, mode }) {
  if (mode === "trial" && action in DONE) return `would be ${DONE[action]}`;
  return (mode === "shadow" ? WOULD : DONE)[action] ?? action;
}

/** Say what was done with a logged call: "allowed", "refused", "would have been warned". */
export function decided({ verdict, shadow }) {
  if (verdict !== "allow") return done({ action: verdict, mode: "enforce" });
  return shadow ? done({ action: shadow, mode: "shadow" }) : "allowed";
}

/** What the calls of an incident that passed have cost; a dash where none passed. */
export function spent(incident) {
  const isNothing = incident.spent_usd === null && incident.calls <= incident.refused;
  return isNothing ? NONE : dollars(incident.spent_usd);
}

/** What its refused calls would have cost; a dash where none was refused. */
export function saved(incident) {
  return incident.refused ? dollars(incident.saved_usd) : NONE;
}

/** Return the tone of an action, which is its colour. */
export function tone(incident) {
  if (incident.mode === "shadow") return "shadow";
  return incident.action === "block" || incident.action === "stop" ? "refused" : "warned";
}

/** Say what a step of an incident in this mode was. */
export function stepped(step, mode) {
  const stage = /^stage (\d+)$/.exec(step.what);
  if (stage) return `reached ${stage[1]} times its threshold`;
  if (step.what === "closed") return "closed: no such call for a while";
  return done({ action: step.what, mode });
}

export function capital(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** A sentence about something without its name at the beginning, where that is its heading. */
export function unnamed(words, name) {
  return words.startsWith(`${name}: `) ? words.slice(name.length + 2) : words;
}
