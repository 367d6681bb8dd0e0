// Incidents in words, as plain text.

import { count, counted, dollars, NONE } from "./number.js";

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

/**
 * Say in one line what repeats: "read_file → the same error 7 times". A call that is refused brings no
 * further result, so these are as many as the rule counted; calls of a loop are `paid` and `refused`.
 */
export function headline(incident) {
  const { signal, tool } = incident;
  const times = `${count(isCounted(incident) ? incident.hits : incident.count)} times`;
  if (isCounted(incident)) {
    const what = signal === "tool" && tool ? `${tool} → called the same way` : COUNTED[signal];
    return `${what}, ${times}`;
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

/** Return the tone of what was done with a logged call: as in the chart of verdicts. */
export function callTone({ verdict, shadow }) {
  if (verdict === "allow") return shadow ? "shadow" : "plain";
  return verdict === "block" || verdict === "stop" ? "good" : "warned";
}

/** What the paid calls of an incident have cost; a dash where none was paid for. */
export function spent(incident) {
  const isNothing = incident.spent_usd === null && !incident.paid;
  return isNothing ? NONE : dollars(incident.spent_usd);
}

/** What its refused calls would have cost; a dash where none was refused. */
export function saved(incident) {
  return incident.refused ? dollars(incident.saved_usd) : NONE;
}

/** Whether money is leaving: the calls of an open loop pass. */
export function isLeaking(incident) {
  return incident.state === "open" && incident.is_contained === false && !incident.is_demo;
}

/** Sort loops: where most money leaves first, then what came to most, then demos. */
export function loopsFirst(one, other) {
  const [mine, others] = [weight(one), weight(other)];
  const place = mine.findIndex((value, index) => value !== others[index]);
  return place < 0 ? 0 : others[place] - mine[place];
}

function weight(incident) {
  const money = (incident.saved_usd ?? 0) + (incident.spent_usd ?? 0);
  const leaving = isLeaking(incident) ? (incident.projected_usd_an_hour ?? 0) : 0;
  return [Number(!incident.is_demo), Number(isLeaking(incident)), leaving, money, incident.hits];
}

/** Return the tone of an action, which is its colour: red where money is leaving. */
export function tone(incident) {
  if (isLeaking(incident)) return "refused";
  if (incident.mode === "shadow") return "shadow";
  return incident.action === "block" || incident.action === "stop" ? "good" : "warned";
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

/** "1 problem, 2 notes" */
export function noticeCounts(problems, notes) {
  return [problems && counted(problems, "problem"), notes && counted(notes, "note")].filter(Boolean).join(", ");
}

/** The first sentence of a text; a full stop within a name or a number ends none. */
export function firstSentence(text) {
  return /^.*?\.(?=\s|$)/s.exec(text)?.[0] ?? text;
}
