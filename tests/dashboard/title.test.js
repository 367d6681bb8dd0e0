import "./browser.js";

import { titleWords } from "../../src/looptrap/admin/dashboard/app/title.js";
import { table } from "./table.js";

table(titleWords, [
  [["Overview", 3], "(3) Overview · Looptrap"],
  [["Overview", 0], "Overview · Looptrap"],
  [["", undefined], "Looptrap"],
]);
