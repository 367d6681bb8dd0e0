import { capital, done, headline, saved, spent, stepped, tone, unnamed } from "../../src/looptrap/admin/dashboard/app/wording.js";
import { table } from "./table.js";

const incident = (more) => ({ signal: "repeat", tool: "read_file", count: 7, hits: 9, evidence: [], mode: "enforce", action: "block", calls: 9, refused: 5, ...more });

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

table(tone, [
  [[{ action: "block", mode: "enforce" }], "refused"],
  [[{ action: "warn", mode: "enforce" }], "warned"],
  [[{ action: "block", mode: "shadow" }], "shadow"],
]);

table(stepped, [
  [[{ what: "stage 10" }, "enforce"], "reached 10 times its threshold"],
  [[{ what: "closed" }, "enforce"], "closed: no such call for a while"],
  [[{ what: "block" }, "shadow"], "would have been refused"],
]);

table(spent, [
  [[incident({ spent_usd: 1.5 })], "$1.50"],
  [[incident({ spent_usd: null })], "unpriced"],
  [[incident({ spent_usd: null, calls: 5 })], "–"],
]);

table(saved, [
  [[incident({ saved_usd: 1.5 })], "$1.50"],
  [[incident({ refused: 0, saved_usd: 0 })], "–"],
]);

table(capital, [[["round"], "Round"]]);
table(unnamed, [[["cycle: too many", "cycle"], "too many"], [["other", "cycle"], "other"]]);
