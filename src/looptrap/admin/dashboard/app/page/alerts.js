// Alerts: the channels, whether they work, and their deliveries.

import { html } from "../html.js";
import { useEvent } from "../live.js";
import { useLoaded, useThrottled } from "../loaded.js";
import { count, counted } from "../number.js";
import { linkTo } from "../pages.js";
import { Figure } from "../part/figure.js";
import { Loaded } from "../part/state.js";
import { Channels } from "./alerts/channels.js";
import { Letters } from "./alerts/letters.js";

const REFRESH_MS = 5_000;

export default function Alerts({ query }) {
  const alerts = useLoaded("alerts");
  const freshen = useThrottled(alerts.reload, REFRESH_MS);
  for (const event of ["stats", "polled", "change"]) useEvent(event, freshen);
  return html`
    <div class="page-head"><h1 tabIndex="-1">Alerts</h1></div>
    <${Loaded} of=${alerts} lines=${8} what="The channels">
      ${({ channels, letters }) => html`
        <dl class="figures three">
          <${Figure} name="Pending" tone=${letters.pending > 10 ? "warned" : ""} value=${count(letters.pending)} href=${linkTo("alerts", { state: "pending" })} note="retried automatically" />
          <${Figure} name="Given up" tone=${letters.dead ? "refused" : ""} value=${count(letters.dead)} href=${linkTo("alerts", { state: "dead" })} note=${letters.dead ? "not delivered" : "none"} />
          <${Figure} name="Delivered" value=${count(letters.delivered)} href=${linkTo("alerts", { state: "delivered" })} note=${`through ${counted(channels.length, "channel")}`} />
        </dl>
        <${Channels} channels=${channels} onChange=${alerts.reload} />
        <${Letters} query=${query} onChange=${alerts.reload} />
      `}
    <//>
  `;
}
