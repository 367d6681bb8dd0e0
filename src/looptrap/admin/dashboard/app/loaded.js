// Values from the API: kept while they are loaded again, so that nothing jumps.

import { get } from "./api.js";
import { useCallback, useEffect, useRef, useState } from "./html.js";
import { useEvent } from "./live.js";

/**
 * Load `path` whenever it or the query changes, and again after a lost connection.
 * A path of null loads nothing.
 * @returns {{value: any, error: Error | null, isLoading: boolean, reload: () => Promise<void>}}
 */
export function useLoaded(path, query = {}) {
  const key = path === null ? null : `${path}?${JSON.stringify(query)}`;
  const [state, setState] = useState({ key: null, value: null, error: null });
  const latest = useRef(0);

  const reload = useCallback(async () => {
    if (key === null) return;
    const turn = ++latest.current;
    const isLatest = () => turn === latest.current;
    try {
      const value = await get(path, query);
      if (isLatest()) setState({ key, value, error: null });
    } catch (error) {
      if (isLatest()) {
        setState((before) => ({ key, value: before.key === key ? before.value : null, error }));
      }
    }
  }, [key]);

  useEffect(() => {
    reload();
    return () => {
      latest.current += 1;
    };
  }, [reload]);
  useEvent("resumed", reload);
  // What failed before the first connection was asked of a gateway that was not up yet.
  useEvent("connected", () => state.error && reload());

  const isLoading = key !== null && state.key !== key;
  return { value: state.value, error: isLoading ? null : state.error, isLoading, reload };
}

/** Return a function that calls `action` at most once in `ms`, and once more where it was held back. */
export function useThrottled(action, ms) {
  const latest = useRef(action);
  latest.current = action;
  const due = useRef({ timer: null, last: 0 });
  useEffect(() => () => clearTimeout(due.current.timer), []);
  return useCallback(() => {
    const state = due.current;
    if (state.timer !== null) return;
    state.timer = setTimeout(
      () => {
        state.timer = null;
        state.last = Date.now();
        latest.current();
      },
      Math.max(0, state.last + ms - Date.now()),
    );
  }, [ms]);
}
