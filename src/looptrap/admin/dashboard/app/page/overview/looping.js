// What is looping now: where money is leaving first, then what is contained, each with its strip.

import { html, useEffect, useState } from "../../html.js";
import { get } from "../../api.js";
import { useEvent } from "../../live.js";
import { useLoaded, useThrottled } from "../../loaded.js";
import { count, counted, dollars } from "../../number.js";
import { linkTo } from "../../pages.js";
import { ActionBadge, Badge } from "../../part/badge.js";
import { Moment } from "../../part/moment.js";
import { Loaded } from "../../part/state.js";
import { MiniStrip } from "../../part/strip.js";
import { headline, isLeaking, loopsFirst } from "../../wording.js";

const LOOKED_AT = 100;
const SHOWN = 5;
const REFRESH_MS = 1_000;

export function Looping({ total }) {
  const open = useLoaded("incidents", { state: "open", limit: LOOKED_AT });
  const freshen = useThrottled(open.reload, REFRESH_MS);
  for (const event of ["incident", "change"]) useEvent(event, freshen);
  return html`
    <section class="card looping" aria-labelledby="looping">
      <h2 id="looping">Looping now</h2>
      <${Loaded} of=${open} lines=${2} what="The incidents">
        ${({ incidents }) => html`<${Listed} incidents=${incidents} total=${total ?? incidents.length} />`}
      <//>
    </section>
  `;
}

function Listed({ incidents, total }) {
  if (!incidents.length) {
    return html`<p>Nothing is looping. <a href=${linkTo("incidents", { state: "all" })}>Show past incidents</a></p>`;
  }
  const shown = [...incidents].sort(loopsFirst).slice(0, SHOWN);
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
    <li class=${isLeaking(incident) ? "leaking" : ""}>
      <div class="incident-line">
        <a class="incident-name" href=${linkTo("incident", {}, { id: incident.id })}>${headline(incident)}</a>
        <span class="badges">${incident.is_demo && html`<${Badge} tone="shadow">demo<//>`}<${ActionBadge} incident=${incident} /></span>
      </div>
      <div class="incident-strip">${strip && html`<${MiniStrip} cells=${strip} isByError=${incident.signal === "same_error"} />`}</div>
      <p class="facts quiet">
        <${Cost} incident=${incident} />
        <span>${incident.caller}</span>
        <span>${incident.model}</span>
        <span><${Moment} at=${incident.last} /></span>
      </p>
    </li>
  `;
}

function Cost({ incident }) {
  const { projected_usd_an_hour: projected, spent_usd: spent, paid } = incident;
  if (isLeaking(incident)) {
    return html`
      <strong class="leaving">${projected === null ? `${counted(paid, "call")} passed` : `${dollars(projected)} an hour leaving`}</strong>
      ${spent !== null && html`<span>${dollars(spent)} spent</span>`}
    `;
  }
  if (!incident.refused) return html`<span>${counted(incident.hits, "time")}</span>`;
  return html`<span>contained: ${count(incident.refused)} refused, ${dollars(incident.saved_usd)} saved</span>`;
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
