// What became of it, in words. Pure.

const DOES = { warn: "Would be warned", throttle: "Would be slowed down", nudge: "Would be nudged", stop: "Would be ended", block: "Would be refused" };

/** Whether a call is answered here rather than by the provider. */
export function isRefused({ action }) {
  return action === "stop" || action === "block";
}

/** "Would be refused at step 7 of 16, by no-progress." */
export function verdictWords({ verdict, at, steps }) {
  if (at === null) return `Nothing would be done in ${steps.length === 1 ? "this step" : `these ${steps.length} steps`}.`;
  return `${DOES[verdict.action]} at step ${at + 1} of ${steps.length}, by ${verdict.rule}.`;
}

/** The step from which calls are refused; undefined where none is. */
export function firstRefused(steps) {
  return steps.find((step) => isRefused(step.verdict))?.index;
}
