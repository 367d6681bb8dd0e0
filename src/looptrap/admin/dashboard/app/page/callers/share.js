// One row of usage: its name, its tokens, its links and its kill switch targets.

import { linkTo } from "../../pages.js";
import { targetsOf } from "../../part/kill_switch.js";

const NAMELESS = { project: "no project", session: "no session", model: "no model", caller: "no caller" };

/** The name, or words for an empty one. */
export function called(by, name) {
  return name || NAMELESS[by];
}

/** A row has the sum of its tokens; a step of time has input and output apart. */
export function tokensOf(row) {
  return row.tokens ?? row.input_tokens + row.output_tokens;
}

/** The link to the incidents of a row; undefined where no filter finds them. */
export function incidentsOf(by, row, query) {
  if (!row.name) return undefined;
  const filter = { caller: { caller: row.name }, project: { project: row.name }, session: { session: row.name, caller: row.caller }, model: { q: row.name } }[by];
  return linkTo("incidents", { ...filter, ...query });
}

/** The targets of a kill switch for this row. */
export function stoppable(by, row) {
  if (by === "session") return targetsOf({ caller: row.caller, session: row.name });
  if (by === "caller") return targetsOf({ caller: row.name });
  return [{ title: `all calls of this ${by}`, whose: `${by} ${row.name}, by any caller,`, match: { [by]: row.name } }];
}
