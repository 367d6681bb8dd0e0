import "./browser.js";
import assert from "node:assert/strict";
import test from "node:test";

import { iso, now, relative, setClock, span } from "../../src/looptrap/admin/dashboard/app/time.js";
import { table } from "./table.js";

const NOON = Date.parse("2026-11-18T12:00:00Z");

table(span, [
  [[0], "0 s"],
  [[60], "1 min"],
  [[89], "89 s"],
  [[240], "4 min"],
  [[3_600], "1 h"],
  [[3_900], "65 min"],
  [[5_700], "1 h 35 min"],
  [[36_300], "10 h"],
  [[3 * 86_400], "3 d"],
]);

table(relative, [
  [["2026-11-18T11:58:00Z", NOON], "2 min ago"],
  [["2026-11-18T12:00:30Z", NOON], "in 30 s"],
  [["2026-11-18T11:59:57Z", NOON], "just now"],
]);

table(iso, [[[NOON], "2026-11-18T12:00:00.000Z"]]);

test("the clock is the gateway's where the viewer's is wrong", () => {
  setClock(new Date(Date.now() + 3_600_000).toISOString());
  assert.ok(Math.abs(now() - Date.now() - 3_600_000) < 1_000);
});

test("a difference of a second is the network's", () => {
  setClock(new Date(Date.now() + 1_000).toISOString());
  assert.ok(Math.abs(now() - Date.now()) < 500);
});
