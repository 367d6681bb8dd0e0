// What is known of a tool, in words. Pure.

export const ACTIONS = ["warn", "throttle", "nudge", "stop", "block"];

/** "warn at 20, block at 60", "exempt: its rounds are ignored" */
export function ruleWords(rule) {
  if (!rule) return "–";
  if (rule.exempt) return "exempt: its rounds are ignored";
  const steps = Object.entries(rule.thresholds ?? {}).sort((one, other) => one[1] - other[1]);
  return steps.map(([action, at]) => `${action} at ${at}`).join(", ") || "–";
}

/** What the API is sent, from the fields of the form. */
export function ruleOf(fields) {
  if (fields.kind === "exempt") return { exempt: true };
  const given = ACTIONS.filter((action) => fields[action]?.trim());
  return { thresholds: Object.fromEntries(given.map((action) => [action, Number(fields[action])])) };
}
