// Values that several parts of the page watch.

import { useEffect, useState } from "./html.js";

/**
 * @template T
 * @param {T} value
 */
export function observed(value) {
  const watchers = new Set();
  return {
    get value() {
      return value;
    },
    /** @param {T} next */
    set(next) {
      if (Object.is(next, value)) return;
      value = next;
      for (const watcher of [...watchers]) watcher(value);
    },
    /** @returns {() => void} what ends the watch */
    watch(watcher) {
      watchers.add(watcher);
      return () => watchers.delete(watcher);
    },
  };
}

/** Return the value of something observed, now and after every change. */
export function useObserved(one) {
  const [value, setValue] = useState(() => one.value);
  useEffect(() => {
    setValue(() => one.value);
    return one.watch((next) => setValue(() => next));
  }, [one]);
  return value;
}
