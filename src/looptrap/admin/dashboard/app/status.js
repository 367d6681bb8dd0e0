// How the gateway is, for every page: version, notices, and whether this viewer may change things.

import { get } from "./api.js";
import { hear } from "./live.js";
import { observed } from "./observed.js";
import { setClock } from "./time.js";

const REFRESH_MS = 30_000;

/** What `GET /status` told last; null before it has. */
export const status = observed(null);

/** Keep the status fresh for as long as the page is open. */
export function attend() {
  hear("status", take);
  for (const event of ["resumed", "change"]) hear(event, refresh);
  setInterval(refresh, REFRESH_MS);
  return refresh();
}

export async function refresh() {
  try {
    take(await get("status", {}, { isQuiet: true }));
  } catch {
    // The connection's state says that nobody answers; what was told last stays.
  }
}

function take(told) {
  setClock(told.now);
  // Not everybody is told the same of this: events come to all.
  status.set({ can_write: status.value?.can_write ?? true, ...told });
}

/** Why the viewer cannot change anything; empty where they can. */
export function whyReadOnly(told) {
  return told && told.can_write === false ? "Your token may only read." : "";
}
