// All that was set while the gateway runs, as one piece of TOML.

import { html } from "../../html.js";
import { useEvent } from "../../live.js";
import { useLoaded } from "../../loaded.js";
import { AsToml } from "./as_toml.js";

const LISTS = [["rules"], ["projects"], ["tools"], ["budgets"], ["kill-switches", "kill_switches"]];

export function RunTime() {
  const lists = LISTS.map(([path]) => useLoaded(path));
  useEvent("change", () => lists.forEach((one) => one.reload()));
  const tables = lists.flatMap(({ value }, index) => (value?.[LISTS[index][1] ?? LISTS[index][0]] ?? []).map((one) => one.toml).filter(Boolean));
  if (!tables.length) return null;
  return html`
    <section class="card" aria-labelledby="run-time">
      <h2 id="run-time">In effect now <span class="quiet">and not in the configuration file</span></h2>
      <${AsToml} toml=${[...new Set(tables)].join("\n")} isOpen />
    </section>
  `;
}
