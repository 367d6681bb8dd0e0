import assert from "node:assert/strict";
import test from "node:test";

import { callTone, capital, decided, done, firstSentence, headline, isLeaking, loopsFirst, noticeCounts, saved, spent, stepped, tone, unnamed } from "../../src/looptrap/admin/dashboard/app/wording.js";
import { table } from "./table.js";

const incident = (more) => ({ signal: "repeat", tool: "read_file", count: 7, hits: 9, evidence: [], mode: "enforce", action: "block", paid: 4, refused: 5, ...more });

table(headline, [
  [[incident()], "read_file → the same result 7 times"],
  [[incident({ signal: "same_error" })], "read_file → the same error 7 times"],
  [[incident({ signal: "conversation", tool: null })], "The same conversation, 9 times"],
  [[incident({ signal: "tool" })], "read_file → called the same way, 9 times"],
  [[incident({ signal: "cycle", tool: null, evidence: [{ what: "a → b, 4 times" }] })], "a → b, 4 times"],
  [[incident({ signal: "", tool: null, rule: "mine" })], "mine tripped"],
]);

table(done, [
  [[{ action: "block", mode: "enforce" }], "refused"],
  [[{ action: "block", mode: "shadow" }], "would have been refused"],
  [[{ action: "warn", mode: "trial" }], "would be warned"],
]);

const CALLS = [
  [{ verdict: "allow", shadow: "" }, "allowed", "plain"],
  [{ verdict: "allow", shadow: "block" }, "would have been refused", "shadow"],
  [{ verdict: "block", shadow: "" }, "refused", "good"],
  [{ verdict: "stop", shadow: "warn" }, "stopped", "good"],
  [{ verdict: "throttle", shadow: "" }, "throttled", "warned"],
];
table(decided, CALLS.map(([call, words]) => [[call], words]));
table(callTone, CALLS.map(([call, , colour]) => [[call], colour]));

const SHADOW = { state: "open", mode: "shadow", action: "block", is_contained: false };
const CONTAINED = { state: "open", mode: "enforce", action: "block", is_contained: true };

table(isLeaking, [
  [[SHADOW], true],
  [[{ ...SHADOW, mode: "enforce", action: "warn" }], true],
  [[CONTAINED], false],
  [[{ ...SHADOW, state: "closed" }], false],
  [[{ ...SHADOW, is_demo: true }], false],
]);

table(tone, [
  [[SHADOW], "refused"],
  [[CONTAINED], "good"],
  [[{ ...SHADOW, state: "closed" }], "shadow"],
  [[{ action: "warn", mode: "enforce" }], "warned"],
]);

test("where money is leaving comes first, demos last", () => {
  const loops = [
    { ...CONTAINED, id: "demo", is_demo: true, saved_usd: 900, hits: 9 },
    { ...CONTAINED, id: "contained", saved_usd: 500, hits: 900 },
    { ...SHADOW, id: "unpriced", projected_usd_an_hour: null, hits: 50 },
    { ...SHADOW, id: "slow", projected_usd_an_hour: 1, spent_usd: 3, hits: 7 },
    { ...SHADOW, id: "fast", projected_usd_an_hour: 20, spent_usd: 1, hits: 5 },
  ];
  assert.deepEqual(loops.sort(loopsFirst).map((one) => one.id), ["fast", "slow", "unpriced", "contained", "demo"]);
});

table(noticeCounts, [
  [[1, 2], "1 problem, 2 notes"],
  [[0, 1], "1 note"],
]);

table(firstSentence, [
  [["The store is away. Calls pass."], "The store is away."],
  [["Only watching: 2.5 % are in shadow mode. Set it."], "Only watching: 2.5 % are in shadow mode."],
  [["127.0.0.1:4100 is taken"], "127.0.0.1:4100 is taken"],
]);

table(stepped, [
  [[{ what: "stage 10" }, "enforce"], "reached 10 times its threshold"],
  [[{ what: "closed" }, "enforce"], "closed: no such call for a while"],
  [[{ what: "block" }, "shadow"], "would have been refused"],
]);

table(spent, [
  [[incident({ spent_usd: 1.5 })], "$1.50"],
  [[incident({ spent_usd: null })], "unpriced"],
  [[incident({ spent_usd: null, paid: 0 })], "–"],
]);

table(saved, [
  [[incident({ saved_usd: 1.5 })], "$1.50"],
  [[incident({ refused: 0, saved_usd: 0 })], "–"],
]);

table(capital, [[["round"], "Round"]]);
table(unnamed, [[["cycle: too many", "cycle"], "too many"], [["other", "cycle"], "other"]]);
