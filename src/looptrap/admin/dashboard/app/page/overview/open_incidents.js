// Open incidents, the most expensive first, each with its strip.

import { html, useEffect, useState } from "../../html.js";
import { get } from "../../api.js";
import { useEvent } from "../../live.js";
import { useLoaded, useThrottled } from "../../loaded.js";
import { counted, dollars } from "../../number.js";
import { linkTo } from "../../pages.js";
import { ActionBadge } from "../../part/badge.js";
import { Moment } from "../../part/moment.js";
import { Empty, Loaded } from "../../part/state.js";
import { MiniStrip } from "../../part/strip.js";
import { headline } from "../../wording.js";

const LOOKED_AT = 100;
const SHOWN = 6;
const REFRESH_MS = 1_000;

export function OpenIncidents({ total }) {
  const open = useLoaded("incidents", { state: "open", limit: LOOKED_AT });
  const freshen = useThrottled(open.reload, REFRESH_MS);
  for (const event of ["incident", "change"]) useEvent(event, freshen);
  return html`
    <section class="card" aria-labelledby="open-incidents">
      <h2 id="open-incidents">Open incidents <span class="quiet">most expensive first</span></h2>
      <${Loaded} of=${open} lines=${5} what="The incidents">
        ${({ incidents }) => html`<${Listed} incidents=${incidents} total=${total ?? incidents.length} />`}
      <//>
    </section>
  `;
}

function Listed({ incidents, total }) {
  if (!incidents.length) {
    return html`<${Empty} isCalm title="Nothing is looping."><a href=${linkTo("incidents", { state: "all" })}>Show past incidents</a><//>`;
  }
  const shown = [...incidents].sort((one, other) => weight(other) - weight(one)).slice(0, SHOWN);
  const rest = Math.max(total, incidents.length) - shown.length;
  return html`
    <ol class="incident-list">
      ${shown.map((incident) => html`<${Item} key=${incident.id} incident=${incident} />`)}
    </ol>
    ${rest > 0 && html`<p class="card-foot"><a href=${linkTo("incidents")}>${counted(rest, "more open incident")}</a></p>`}
  `;
}

function Item({ incident }) {
  const strip = useStrip(incident);
  return html`
    <li>
      <div class="incident-line">
        <a class="incident-name" href=${linkTo("incident", {}, { id: incident.id })}>${headline(incident)}</a>
        <${ActionBadge} incident=${incident} />
      </div>
      <div class="incident-strip">${strip && html`<${MiniStrip} cells=${strip} />`}</div>
      <p class="facts quiet">
        <span>${incident.caller}</span>
        <span>${incident.model}</span>
        <span>${incident.refused ? `${counted(incident.refused, "call")} refused` : counted(incident.hits, "hit")}</span>
        ${incident.refused > 0 && html`<span>${dollars(incident.saved_usd)} saved</span>`}
        <span><${Moment} at=${incident.last} /></span>
      </p>
    </li>
  `;
}

/** Only the detail of an incident has the strip: load it again whenever the incident changes. */
function useStrip({ id, last }) {
  const [strip, setStrip] = useState(null);
  useEffect(() => {
    let isWanted = true;
    get(`incidents/${encodeURIComponent(id)}`).then(
      (shown) => isWanted && setStrip(shown.strip ?? null),
      () => {}, // the line is useful without its strip
    );
    return () => {
      isWanted = false;
    };
  }, [id, last]);
  return strip;
}

function weight(incident) {
  const money = (incident.saved_usd ?? 0) + (incident.spent_usd ?? 0);
  // Without a price, hits decide, below everything that has one.
  return money * 1e6 + incident.hits;
}
