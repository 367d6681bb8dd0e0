import { isOfErrors } from "../../src/looptrap/admin/dashboard/app/page/try/verdict.js";
import { table } from "./table.js";

const RULES = [{ rule: "mine", signal: "same_error" }, { rule: "cycle", signal: "cycle" }];

table(isOfErrors, [
  [[{ verdict: { rule: "mine" }, rules: RULES }], true],
  [[{ verdict: { rule: "cycle" }, rules: RULES }], false],
  [[{ verdict: { rule: null }, rules: RULES }], false],
]);
