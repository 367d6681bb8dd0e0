// The title of the tab: how many incidents are open, and the page.

import { observed } from "./observed.js";
import { status } from "./status.js";

/** What the page is about. */
export const title = observed("");

export function titleWords(page, open) {
  return `${open ? `(${open}) ` : ""}${page ? `${page} · ` : ""}Looptrap`;
}

/** Keep the title of the tab up to date for as long as it is open. */
export function watchTitle() {
  const show = () => {
    document.title = titleWords(title.value, status.value?.open_incidents);
  };
  title.watch(show);
  status.watch(show);
}
