// Arcs above a row of the strip: each ties a round to the next one that equals it.

import { html } from "../html.js";
import { links } from "../rounds.js";

const LOWEST = 9;
const HIGHEST = 52;
const EDGE = 2;

/** How many pixels arcs need above the cells; none where nothing repeats. */
export function arcRoom(kinds, pitch) {
  const found = links(kinds).map((link) => height(link, pitch));
  return found.length ? Math.ceil(Math.max(...found)) + EDGE : 0;
}

/** Arcs of the row that begins with round `first`; one that leaves a row comes back in the next. */
export function Arcs({ kinds, first, length, pitch, chosen }) {
  const room = arcRoom(kinds, pitch);
  const width = length * pitch;
  const end = first + length;
  const drawn = links(kinds).filter((link) => link.to >= first && link.from < end);
  if (!drawn.length) return null;
  return html`
    <svg class="arcs" width=${width} height=${room} aria-hidden="true">
      ${drawn.map((link) => html`
        <path
          key=${`${link.from}-${link.to}`}
          class="hue-${link.kind.hue} ${chosen && chosen !== link.kind ? "dimmed" : ""}"
          d=${path(link, { first, end, pitch, room, width })}
        />
      `)}
    </svg>
  `;
}

function path(link, { first, end, pitch, room, width }) {
  const top = room - height(link, pitch);
  const from = (link.from - first + 0.5) * pitch;
  const to = (link.to - first + 0.5) * pitch;
  if (link.from < first) return `M0 ${top} Q${to} ${top} ${to} ${room}`;
  if (link.to >= end) return `M${from} ${room} Q${from} ${top} ${width} ${top}`;
  return `M${from} ${room} C${from} ${top - (room - top) / 3} ${to} ${top - (room - top) / 3} ${to} ${room}`;
}

function height(link, pitch) {
  const steps = link.to - link.from;
  return Math.min(HIGHEST, LOWEST + (Math.min(steps, 12) - 1) * Math.min(6, pitch / 5));
}
