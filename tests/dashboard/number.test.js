import { compact, count, counted, dollars, latency, percent, tokens } from "../../src/looptrap/admin/dashboard/app/number.js";
import { table } from "./table.js";

table(count, [
  [[12_345], "12,345"],
  [[0], "0"],
  [[null], "–"],
  [[undefined], "–"],
]);

table(compact, [
  [[99_999], "99,999"],
  [[123_456], "123K"],
  [[null], "–"],
]);

table(counted, [
  [[1, "call"], "1 call"],
  [[0, "call"], "0 calls"],
  [[1_200, "call"], "1,200 calls"],
  [[2, "query", "queries"], "2 queries"],
]);

table(dollars, [
  [[12.4], "$12.40"],
  [[1_240.4], "$1,240"],
  [[0.0042], "$0.0042"],
  [[0.00004], "< $0.0001"],
  [[0], "$0.00"],
  [[null], "unpriced"],
]);

table(tokens, [
  [[41_800], "41,800 tokens"],
  [[418_000], "418K tokens"],
  [[null], "–"],
]);

table(percent, [
  [[31, 1_000], "3.1 %"],
  [[1, 3], "33 %"],
  [[1, 10_000], "< 0.1 %"],
  [[0, 10], "0 %"],
  [[1, 0], "–"],
]);

table(latency, [
  [[0.42], "420 ms"],
  [[1.26], "1.3 s"],
  [[null], "–"],
]);
