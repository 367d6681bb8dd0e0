// The verdict in words. Pure.

import { capital, done } from "../../wording.js";

/** Whether a call is answered here rather than by the provider. */
export function isRefused({ action }) {
  return action === "stop" || action === "block";
}

/** "Would be refused at step 7 of 16, by no-progress." */
export function verdictWords({ verdict, at, steps }) {
  if (at === null) return `No rule would act in ${steps.length === 1 ? "this step" : `these ${steps.length} steps`}.`;
  return `${capital(done({ action: verdict.action, mode: "trial" }))} at step ${at + 1} of ${steps.length}, by ${verdict.rule}.`;
}

/** Whether rounds with the same error are of one kind: where the rule that acts counts errors. */
export function isOfErrors({ verdict, rules }) {
  return rules.some((one) => one.rule === verdict.rule && one.signal === "same_error");
}

/** The step from which calls are refused; undefined where none is. */
export function firstRefused(steps) {
  return steps.find((step) => isRefused(step.verdict))?.index;
}
