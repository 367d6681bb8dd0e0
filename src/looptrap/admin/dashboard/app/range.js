// Spans of time that end now, and the steps in which they are told.

import { useEffect, useState } from "./html.js";
import { now } from "./time.js";

const SLIDE_MS = 30_000;

/** @typedef {{name: string, title: string, words: string, seconds: number, step: number}} Range */

/** The beginning of a range that ends now, moved on every half minute, always at a whole step. */
export function useSince(range) {
  const begin = () => (Math.floor(now() / 1000 / range.step) * range.step + range.step - range.seconds) * 1000;
  const [since, setSince] = useState(begin);
  useEffect(() => {
    setSince(begin());
    const timer = setInterval(() => setSince(begin()), SLIDE_MS);
    return () => clearInterval(timer);
  }, [range]);
  return since;
}
