import "./browser.js";

import { beginOf, startOf } from "../../src/looptrap/admin/dashboard/app/range.js";
import { table } from "./table.js";

const AT = Date.parse("2026-11-18T12:00:30Z");

table(startOf, [
  [[{ seconds: 3_600, step: 60 }, AT], Date.parse("2026-11-18T11:01:00Z")],
  [[{ seconds: 86_400, step: 300 }, AT], Date.parse("2026-11-17T12:05:00Z")],
  [[{ seconds: 3_600, step: 60 }, AT + 29_000], Date.parse("2026-11-18T11:01:00Z")],
]);

table(beginOf, [
  [["15m", AT], "2026-11-18T11:45:00.000Z"],
  [["24h", AT], "2026-11-17T12:00:00.000Z"],
  [["30d", AT], "2026-10-19T12:00:00.000Z"],
  [["custom", AT], ""],
  [["", AT], ""],
  [[undefined, AT], ""],
]);
