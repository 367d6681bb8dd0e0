import assert from "node:assert/strict";
import test from "node:test";

import { didWords, links, readRounds, roundWords, stripWords } from "../../src/looptrap/admin/dashboard/app/rounds.js";
import { table } from "./table.js";

const cell = (id, more = {}) => ({ id, tools: [`tool_${id}`], is_error: false, repeats: false, after: "", ...more });
const cells = (ids) => [...ids].map((id) => cell(id));
const letters = (ids) => readRounds(cells(ids)).cells.map((one) => one.kind?.letter ?? "·").join("");

test("only what came more than once has a letter, in the order it came", () => {
  assert.equal(letters("xababy"), "·ABAB·");
});

test("the 27th kind is A2", () => {
  const ids = Array.from({ length: 27 }, (_, index) => String.fromCharCode(65 + index));
  assert.equal(readRounds(cells([...ids, ...ids])).kinds.at(-1).letter, "A2");
});

test("a kind knows its numbers, which begin with 1", () => {
  assert.deepEqual(readRounds(cells("xaya")).kinds.map((kind) => kind.numbers), [[2, 4]]);
});

test("equal rounds are linked to the next one", () => {
  const pairs = links(readRounds(cells("abaa")).kinds).map(({ from, to }) => [from, to]);
  assert.deepEqual(pairs, [[0, 2], [2, 3]]);
});

table(didWords, [
  [[["read_file"], true], "read_file, failed"],
  [[["a", "b"], false], "a + b"],
  [[[], false], "no tool called"],
  [[[], false, "call"], "call"],
]);

test("a round says which others it equals", () => {
  const { cells: [, second] } = readRounds(cells("xaa"));
  assert.equal(roundWords(second, 3), "Round 2 of 3: tool_a. Same call, same result as round 3.");
});

test("a strip says what repeats, and where the history was cut", () => {
  const read = readRounds([cell("a", { is_error: true }), cell("a", { is_error: true, after: "trim" })]);
  assert.equal(stripWords(read), "2 rounds, oldest first. What repeats: A, tool_a, failed, 2 times. Trimmed before round 2.");
});

test("of the same error, rounds with other calls are of one kind", () => {
  const failed = (id) => cell(id, { is_error: true, error: "e1" });
  const read = readRounds([failed("a"), failed("b"), cell("c"), failed("a")], true);
  assert.deepEqual(read.cells.map((one) => one.kind?.letter ?? "·"), ["A", "A", "·", "A"]);
  assert.deepEqual(read.kinds[0].tools, ["tool_a", "tool_b"]);
  assert.equal(roundWords(read.cells[1], 4), "Round 2 of 4: tool_b, failed. Same error as rounds 1, 4.");
});
