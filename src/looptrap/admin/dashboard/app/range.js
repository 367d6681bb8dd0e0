// Time ranges that end now, and their steps.

import { useEffect, useState } from "./html.js";
import { now } from "./time.js";

const SLIDE_MS = 30_000;

/** @typedef {{name: string, title: string, words: string, seconds: number, step: number}} Range */

/** The start of a range that ends now, updated every half minute, always at a whole step. */
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
