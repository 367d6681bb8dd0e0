import "./browser.js";

import { ends } from "../../src/looptrap/admin/dashboard/app/part/time_range.js";
import { table } from "./table.js";

const [EARLY, LATE] = ["2026-11-18T12:00:00.000Z", "2026-11-19T12:00:00.000Z"];

table(ends, [
  [[{}, "since", EARLY], { since: EARLY, until: "" }],
  [[{ since: EARLY }, "until", LATE], { since: EARLY, until: LATE }],
  [[{ since: LATE }, "until", EARLY], { since: "", until: EARLY }],
  [[{ since: EARLY, until: LATE }, "since", LATE], { since: LATE, until: "" }],
  [[{ since: EARLY, until: LATE }, "until", ""], { since: EARLY, until: "" }],
]);
