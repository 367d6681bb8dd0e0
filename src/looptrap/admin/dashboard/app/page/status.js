// Status: the gateway, its providers and stores, and its configuration.

import { html } from "../html.js";
import { useObserved } from "../observed.js";
import { Notices } from "../part/notice.js";
import { Loading } from "../part/state.js";
import { status } from "../status.js";
import { Configuration } from "./status/configuration.js";
import { Cooldowns } from "./status/cooldowns.js";
import { Gateway } from "./status/gateway.js";
import { Indicators } from "./status/indicators.js";
import { Keys } from "./status/keys.js";
import { KillSwitches } from "./status/kill_switches.js";
import { Providers } from "./status/providers.js";

export default function Status({ query }) {
  const current = useObserved(status);
  return html`
    <div class="page-head"><h1 tabIndex="-1">Status</h1></div>
    ${current ? html`<${Notices} notices=${current.notices} /><${Gateway} current=${current} />` : html`<${Loading} lines=${6} />`}
    <${Providers} />
    <div class="columns">
      <div><${KillSwitches} /><${Cooldowns} /></div>
      <div>${current && html`<${Indicators} indicators=${current.indicators} />`}<${Keys} /></div>
    </div>
    <${Configuration} query=${query} />
  `;
}
