import "./browser.js";
import assert from "node:assert/strict";
import test from "node:test";

import { SHORTCUTS } from "../../src/looptrap/admin/dashboard/app/keys.js";
import { PAGES } from "../../src/looptrap/admin/dashboard/app/pages.js";

test("every page with a key is in the list of shortcuts", () => {
  const listed = SHORTCUTS.filter(({ keys }) => keys[0] === "g").map(({ keys }) => keys[1]);
  assert.deepEqual(listed, PAGES.map((page) => page.key).filter(Boolean));
});
