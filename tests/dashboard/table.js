// Tests as tables: one function, and what it returns for which arguments.

import assert from "node:assert/strict";
import test from "node:test";

/** Make one test of each row [arguments, expected]; the arguments are its name. */
export function table(tested, rows) {
  for (const [given, expected] of rows) {
    test(`${tested.name}(${given.map((one) => JSON.stringify(one)).join(", ")})`, () => {
      assert.deepEqual(tested(...given), expected);
    });
  }
}
