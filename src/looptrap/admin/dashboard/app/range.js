// Time ranges that end now, and their steps.

import { useEffect, useState } from "./html.js";
import { iso, now } from "./time.js";

const SLIDE_MS = 30_000;

/** @typedef {{name: string, title: string, words: string, seconds: number, step: number}} Range */

/** For requests over time; the steps are those of `GET /stats`. */
export const RANGES = [
  { name: "15m", title: "15 min", words: "15 minutes", seconds: 900, step: 60 },
  { name: "1h", title: "1 h", words: "hour", seconds: 3_600, step: 60 },
  { name: "24h", title: "24 h", words: "24 hours", seconds: 86_400, step: 300 },
  { name: "7d", title: "7 d", words: "7 days", seconds: 604_800, step: 3_600 },
];

/** The start of a range that ends at a time in ms, at a whole step. */
export function startOf({ seconds, step }, end) {
  return (Math.floor(end / 1000 / step) * step + step - seconds) * 1000;
}

const UNITS = { m: 60, h: 3_600, d: 86_400 };

/** Return when a range of a name such as "24h" begins that ends at a time in ms, to the minute; empty for no such name. */
export function beginOf(name, end = now()) {
  const [, number, unit] = /^(\d+)([mhd])$/.exec(name ?? "") ?? [];
  return unit ? iso(Math.floor(end / 60_000 - (number * UNITS[unit]) / 60) * 60_000) : "";
}

/** The start of a range that ends now, updated every half minute. */
export function useSince(range) {
  const begin = () => startOf(range, now());
  const [since, setSince] = useState(begin);
  useEffect(() => {
    setSince(begin());
    const timer = setInterval(() => setSince(begin()), SLIDE_MS);
    return () => clearInterval(timer);
  }, [range]);
  return since;
}
