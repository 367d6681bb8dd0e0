// Requests by verdict over time.

import { html, useMemo } from "../html.js";
import { count } from "../number.js";
import { StackedChart } from "./stacked_chart.js";

/**
 * Lowest first: what was refused stands on the ground line, where it can be read. It is green as in the
 * list of incidents: such a call costs nothing.
 */
const BANDS = [
  { name: "refused", title: "Refused", colour: "good" },
  { name: "warned", title: "Warned" },
  { name: "shadowed", title: "Shadow" },
  { name: "passed", title: "Allowed" },
].map(({ name, title, colour = name }) => ({ name, title, stroke: colour, fill: `${colour}-fill` }));

/** Split calls into bands that add up to all of them, whether or not shadowed ones count as allowed. */
export function bandsOf(numbers) {
  const { calls, refused, warned, shadowed } = numbers;
  return { refused, warned, shadowed, passed: Math.max(0, calls - refused - warned - shadowed) };
}

/** @param {{series: object[], step: number, summary: string}} props as `GET /stats` tells them */
export function VerdictChart({ series, step, summary }) {
  const points = useMemo(() => series.map((one) => ({ time: one.time, values: bandsOf(one) })), [series]);
  return html`<${StackedChart} points=${points} bands=${BANDS} step=${step} words=${words} least=${4} summary=${summary} caption="Requests by verdict over time" />`;
}

function words(value, isTick) {
  return isTick && !Number.isInteger(value) ? "" : count(value);
}
