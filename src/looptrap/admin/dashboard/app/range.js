// Time ranges that end now, and their steps.

import { useEffect, useState } from "./html.js";
import { now } from "./time.js";

const SLIDE_MS = 30_000;

/** @typedef {{name: string, title: string, words: string, seconds: number, step: number}} Range */

/** The start of a range that ends at a time in ms, at a whole step. */
export function startOf({ seconds, step }, end) {
  return (Math.floor(end / 1000 / step) * step + step - seconds) * 1000;
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
