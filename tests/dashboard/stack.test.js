// How a series of usage becomes the bands and points of a stacked chart. Run in UTC.

import assert from "node:assert/strict";
import { test } from "node:test";

import { stackedUsage, stepOf } from "../../src/looptrap/admin/dashboard/app/page/callers/stack.js";

const HOUR = 3_600;
const NOON = Date.parse("2026-11-18T12:00:00Z");

function stack(series, more = {}) {
  const how = { since: NOON, until: NOON + 3 * HOUR * 1000, step: HOUR, of: (one) => one.cost_usd, called: (name) => name ?? "all", offset: 0 };
  return stackedUsage(series, { ...how, ...more });
}

function point(hours, name, cost_usd) {
  return { time: new Date(NOON + hours * HOUR * 1000).toISOString(), name, cost_usd };
}

test("the name with the highest sum is the lowest band", () => {
  const { bands } = stack([point(0, "a", 1), point(0, "b", 2), point(1, "a", 4)]);
  assert.deepEqual(bands.map((one) => one.title), ["a", "b"]);
});

test("steps without usage are there, and are empty", () => {
  const { bands, points } = stack([point(1, "a", 4)]);
  assert.deepEqual(points.map(({ values }) => values[bands[0].name] ?? 0), [0, 4, 0]);
});

test("names beyond the colours are one band, with the sum of all", () => {
  const { bands, points } = stack(Array.from({ length: 12 }, (_, index) => point(0, `n${index}`, 12 - index)));
  assert.equal(bands.length, 8);
  assert.equal(bands.at(-1).title, "5 others");
  assert.equal(points[0].values[bands.at(-1).name], 5 + 4 + 3 + 2 + 1);
});

test("a caller whose name is that of a property of objects is a name like others", () => {
  const { bands, points } = stack([point(0, "__proto__", 1), point(0, "constructor", 2)]);
  assert.deepEqual(bands.map((one) => points[0].values[one.name]), [2, 1]);
});

test("what has no price counts as nothing", () => {
  const { bands, points } = stack([point(0, "a", null)]);
  assert.equal(points[0].values[bands[0].name], 0);
});

test("days begin at midnight of the viewer's zone", () => {
  const { points } = stack([], { since: NOON - 86_400_000, step: 86_400, offset: HOUR });
  assert.deepEqual(points.map((one) => one.time), ["2026-11-16T23:00:00.000Z", "2026-11-17T23:00:00.000Z"]);
});

test("a period without end has no endless list of points", () => {
  assert.equal(stack([], { since: -1e14 }).points.length, 2_000);
});

for (const [seconds, age, step] of [
  [HOUR, HOUR, 60],
  [86_400, 86_400, 1_800],
  [HOUR, 30 * 86_400, 3_600],
  [30 * 86_400, 30 * 86_400, 43_200],
  [1e12, 1e12, 2_592_000],
]) {
  test(`a period of ${seconds} s that began ${age} s ago has steps of ${step} s`, () => assert.equal(stepOf(seconds, age), step));
}
