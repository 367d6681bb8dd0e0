// What was set while the gateway runs, as TOML to copy into the configuration file.

import { html } from "../../html.js";
import { useObserved } from "../../observed.js";
import { CopyButton } from "../../part/copy.js";
import { status } from "../../status.js";

export function AsToml({ toml, isOpen = false }) {
  const current = useObserved(status);
  if (!toml) return null;
  const ends = current?.store.kind === "memory" ? "ends when the gateway stops" : "stays only as long as the store of the instances keeps it";
  return html`
    <details class="quiet-details as-toml" open=${isOpen}>
      <summary>As TOML for the configuration file</summary>
      <p>What is set here ${ends}. To make it lasting, copy this into the file and reload it.</p>
      <div class="row end"><${CopyButton} text=${toml} label="the settings as TOML" /></div>
      <pre class="answer" tabIndex="0" role="region" aria-label="Settings as TOML">${toml}</pre>
    </details>
  `;
}
