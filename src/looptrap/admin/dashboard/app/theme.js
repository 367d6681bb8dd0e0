// Light or dark: the setting of the system, unless the viewer chose. Loaded first, so that nothing flashes.

import { observed } from "./observed.js";

const STORAGE_KEY = "looptrap-theme";
const system = matchMedia("(prefers-color-scheme: dark)");

export const CHOICES = ["auto", "light", "dark"];

/** What the viewer chose. */
export const choice = observed(kept());

/** What is shown: "light" or "dark". */
export const theme = observed(resolved());

export function choose(name) {
  localStorage.setItem(STORAGE_KEY, name);
  choice.set(name);
  apply();
}

function kept() {
  const found = localStorage.getItem(STORAGE_KEY);
  return CHOICES.includes(found) ? found : "auto";
}

function resolved() {
  if (choice.value !== "auto") return choice.value;
  return system.matches ? "dark" : "light";
}

function apply() {
  document.documentElement.dataset.theme = resolved();
  theme.set(resolved());
}

system.addEventListener("change", apply);
apply();
