// The status of the gateway, for every page: version, notices, and whether this viewer may change things.

import { get } from "./api.js";
import { subscribe } from "./live.js";
import { observed } from "./observed.js";
import { setClock } from "./time.js";

const REFRESH_MS = 30_000;

/** The latest answer of `GET /status`; null before the first. */
export const status = observed(null);

/** Keep the status fresh for as long as the page is open. */
export function watchStatus() {
  subscribe("status", take);
  for (const event of ["connected", "resumed", "change"]) subscribe(event, refresh);
  setInterval(refresh, REFRESH_MS);
  return refresh();
}

export async function refresh() {
  try {
    take(await get("status", {}, { isQuiet: true }));
  } catch {
    // The state of the connection says so; the latest status stays.
  }
}

function take(current) {
  setClock(current.now);
  // Events are the same for all viewers and come from one process: they lack these fields.
  const { can_write = true, operator = "", workers = null } = status.value ?? {};
  status.set({ can_write, operator, workers, ...current });
}

/** Why the viewer cannot change anything; empty where they can. */
export function whyReadOnly(current) {
  return current && current.can_write === false ? "Your token may only read." : "";
}
