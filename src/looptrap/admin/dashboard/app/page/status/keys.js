// Gateway keys: their names, never the keys.

import { html } from "../../html.js";
import { useEvent } from "../../live.js";
import { useLoaded } from "../../loaded.js";
import { linkTo } from "../../pages.js";
import { Moment } from "../../part/moment.js";
import { Loaded } from "../../part/state.js";
import { KeyState } from "../settings/keys.js";

export function Keys() {
  const keys = useLoaded("keys");
  useEvent("change", keys.reload);
  return html`
    <section class="card" aria-labelledby="keys">
      <h2 id="keys">Gateway keys</h2>
      <${Loaded} of=${keys} lines=${3} what="The keys">
        ${(value) => html`
          <p class="quiet">${value.requires_keys ? "Every call needs a key." : "Calls need no key."} <a href=${linkTo("settings", { part: "keys" })}>Manage keys</a></p>
          <ul class="choices">
            ${value.keys.map((one) => html`
              <li key=${`${one.name} ${one.created}`}>
                <span><a href=${linkTo("callers", { by: "caller", name: `key:${one.name}` })}>${one.name}</a> <span class="quiet">${one.project}</span></span>
                ${one.revoked ? html`<${KeyState} revoked=${one.revoked} />` : html`<span class="quiet">created <${Moment} at=${one.created} /></span>`}
              </li>
            `)}
          </ul>
        `}
      <//>
    </section>
  `;
}
