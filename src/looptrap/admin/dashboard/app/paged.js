// Lists that are loaded page by page.

import { get } from "./api.js";
import { useCallback, useEffect, useRef, useState } from "./html.js";
import { useEvent } from "./live.js";

/**
 * The loaded pages of `path` as one list; `field` is its name in the API. `reload` starts with the
 * first page again and keeps the rows until it has come; `update` changes them.
 */
export function usePaged(path, query, field, { limit = 50, keyOf = null } = {}) {
  const key = JSON.stringify([path, query]);
  const [list, setList] = useState({ key, rows: null, next: null, error: null, isGoingOn: false });
  const turn = useRef(0);

  const reload = useCallback(async () => {
    const mine = ++turn.current;
    const found = await get(path, { ...query, limit }).catch((error) => ({ error }));
    if (mine !== turn.current) return;
    setList((before) => {
      const rows = found.error ? (before.key === key ? before.rows : null) : found[field];
      return { key, rows, next: found.next ?? null, error: found.error ?? null, isGoingOn: false };
    });
  }, [key]);

  const goOn = async () => {
    const mine = turn.current;
    setList((before) => ({ ...before, isGoingOn: true }));
    const found = await get(path, { ...query, limit, cursor: list.next }).catch((error) => ({ error }));
    if (mine !== turn.current) return;
    setList((before) => ({
      ...before,
      isGoingOn: false,
      error: found.error ?? null,
      next: found.error ? before.next : found.next,
      rows: appended(before.rows, found[field] ?? [], keyOf),
    }));
  };

  const update = (change) => setList((before) => (before.rows ? { ...before, rows: change(before.rows) } : before));

  useEffect(() => {
    reload();
    return () => {
      turn.current += 1;
    };
  }, [reload]);
  useEvent("resumed", reload);
  useEvent("connected", () => list.error && reload());
  const isLoading = list.key !== key;
  return { ...list, value: isLoading ? null : list.rows, error: isLoading ? null : list.error, isLoading, reload, goOn, update };
}

/** Rows that are listed already, as `update` may have added them, come once. */
function appended(rows, more, keyOf) {
  const known = new Set(keyOf ? rows.map(keyOf) : []);
  return [...rows, ...more.filter((one) => !keyOf || !known.has(keyOf(one)))];
}
