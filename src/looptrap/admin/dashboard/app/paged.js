// Lists that come page by page.

import { get } from "./api.js";
import { useCallback, useEffect, useRef, useState } from "./html.js";
import { useHeard } from "./live.js";

const PAGE = 50;

/**
 * The pages of `path` that were asked for, as one list; `field` is what the API calls it.
 * Loading anew keeps what is there until it comes, and begins with the first page again.
 */
export function usePaged(path, query, field) {
  const key = JSON.stringify([path, query]);
  const [list, setList] = useState({ key, rows: null, next: null, error: null, isGoingOn: false });
  const turn = useRef(0);

  const reload = useCallback(async () => {
    const mine = ++turn.current;
    const found = await get(path, { ...query, limit: PAGE }).catch((error) => ({ error }));
    if (mine !== turn.current) return;
    setList((before) => {
      const rows = found.error ? (before.key === key ? before.rows : null) : found[field];
      return { key, rows, next: found.next ?? null, error: found.error ?? null, isGoingOn: false };
    });
  }, [key]);

  const goOn = async () => {
    const mine = turn.current;
    setList((before) => ({ ...before, isGoingOn: true }));
    const found = await get(path, { ...query, limit: PAGE, cursor: list.next }).catch((error) => ({ error }));
    if (mine !== turn.current) return;
    setList((before) => ({
      ...before,
      isGoingOn: false,
      error: found.error ?? null,
      next: found.error ? before.next : found.next,
      rows: [...before.rows, ...(found[field] ?? [])],
    }));
  };

  useEffect(() => {
    reload();
    return () => {
      turn.current += 1;
    };
  }, [reload]);
  useHeard("resumed", reload);
  const isLoading = list.key !== key;
  return { ...list, value: isLoading ? null : list.rows, error: isLoading ? null : list.error, isLoading, reload, goOn };
}
