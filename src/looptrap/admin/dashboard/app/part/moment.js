// A time: how long ago, with the exact time as its title.

import { html } from "../html.js";
import { useObserved } from "../observed.js";
import { brief, clock, exact, relative } from "../time.js";

/** Without `isExact` it is relative to now and updates itself. */
export function Moment({ at, isExact = false }) {
  const from = useObserved(clock);
  if (!at) return "–";
  return html`<time dateTime=${at} title=${exact(at)}>${isExact ? brief(at) : relative(at, from)}</time>`;
}
