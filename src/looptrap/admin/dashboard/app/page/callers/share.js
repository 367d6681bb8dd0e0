// One share of what was spent: how it is called, and what leads to what it is made of.

import { linkTo } from "../../pages.js";
import { targetsOf } from "../../part/kill_switch.js";

const NAMELESS = { project: "no project", session: "no session", model: "no model", caller: "no caller" };

/** The name as people read it. */
export function called(by, name) {
  return name || NAMELESS[by];
}

/** Of a row, which tells them together, or of a step of time, which tells them apart. */
export function tokensOf(row) {
  return row.tokens ?? row.input_tokens + row.output_tokens;
}

/** The link to the incidents of a share; none where no filter finds them. */
export function incidentsOf(by, row, query) {
  if (!row.name) return undefined;
  const filter = { caller: { caller: row.name }, project: { project: row.name }, session: { session: row.name, caller: row.caller }, model: { q: row.name } }[by];
  return linkTo("incidents", { ...filter, ...query });
}

/** Whom a kill switch for this share can stop. */
export function stoppable(by, row) {
  if (by === "session") return targetsOf({ caller: row.caller, session: row.name });
  if (by === "caller") return targetsOf({ caller: row.name });
  return [{ title: `all calls of this ${by}`, whose: `${by} ${row.name}, by any caller,`, match: { [by]: row.name } }];
}
