// What to do about an incident, and why. Pure.

import { count, dollars } from "./number.js";

/**
 * @typedef {{action: "" | "kill" | "acknowledge" | "label", title: string, why: string}} Advice
 *   of which `action` is empty where there is nothing to do
 */

/**
 * The best next action on an incident.
 * @returns {Advice}
 */
export function advise(incident) {
  if (incident.is_demo) return nothing("This is a demo", "No provider was called, and no money was spent. Look around: the strip shows what repeats.");
  if (incident.state === "closed") return adviseAfter(incident);
  if (incident.is_contained) return adviseContained(incident);
  return {
    action: "kill",
    title: "Stop this session",
    why: `${whyItPasses(incident)} ${rate(incident)} A kill switch refuses every call of this session at once, and can be ended at any time.`,
  };
}

function adviseAfter({ label, suggestion }) {
  if (label === "false_alarm" && suggestion) return nothing("Prevent the next false alarm", "The setting below would have prevented this one.");
  if (label) return nothing("Nothing to do", "The loop is over, and it is known what it was.");
  return {
    action: "label",
    title: "Say whether this was a loop",
    why: "It is over. The answer shows how often rules are right; for a false alarm, a setting is suggested.",
  };
}

function adviseContained({ acknowledged, refused, stage }) {
  if (stage >= 10) {
    return {
      action: "kill",
      title: "Stop this session",
      why: `${count(refused)} calls were refused, and it goes on. They cost nothing, but the agent does not give up. A kill switch answers with a status that ends most agents.`,
    };
  }
  if (acknowledged) return nothing("Leave it refused", `Its calls are refused and cost nothing, and ${acknowledged.by} takes care of it.`);
  return {
    action: "acknowledge",
    title: "Leave it refused, and find the cause",
    why: "Its calls are refused and cost nothing. Acknowledge it, so that others know that you look into it. Release it only when the cause is fixed: then the loop may go on, and is paid for.",
  };
}

function whyItPasses({ mode, action }) {
  if (mode === "shadow") return "Nothing refuses its calls: the rule is in shadow mode.";
  return `Its calls pass: at this count the rule does no more than ${action}.`;
}

function rate({ projected_usd_an_hour: projected }) {
  return projected === null || projected === undefined ? "What they cost is not known." : `About ${dollars(projected)} an hour is leaving.`;
}

function nothing(title, why) {
  return { action: "", title, why };
}
