// Keys that work everywhere: `/` to search, `g` and a letter to go to a page, `?` for a list of them.

import { observed } from "./observed.js";
import { PAGES } from "./pages.js";
import { go } from "./router.js";

const TOGETHER_MS = 1_000;
let going = 0;

/** Whether the list of keys is shown. */
export const isHelpOpen = observed(false);

/** @type {{keys: string[], words: string}[]} */
export const SHORTCUTS = [
  { keys: ["?"], words: "Show this list" },
  { keys: ["/"], words: "Search" },
  ...PAGES.filter((page) => page.key).map((page) => ({ keys: ["g", page.key], words: `Go to ${page.title}` })),
  { keys: ["Esc"], words: "Close a dialog" },
];

export function listen() {
  addEventListener("keydown", (event) => {
    const isTyping = event.target.closest?.("input, select, textarea, dialog");
    if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "/") {
      event.preventDefault();
      search();
    } else if (event.key === "?") {
      isHelpOpen.set(true);
    } else if (event.timeStamp - going < TOGETHER_MS) {
      going = 0;
      const page = PAGES.find((one) => one.key === event.key);
      if (page) go(page.path);
    } else if (event.key === "g") {
      going = event.timeStamp;
    }
  });
}

function search() {
  const field = document.querySelector('main input[type="search"]');
  if (field) field.focus();
  else go("/incidents", { focus: "search" });
}
