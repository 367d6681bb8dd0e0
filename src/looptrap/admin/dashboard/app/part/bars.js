// One number over time as a small chart: a bar for each step with a value.

import { html } from "../html.js";
import { brief } from "../time.js";

const WIDTH = 1_000; // of the drawing, which is stretched to the room there is
const HEIGHT = 120;

/**
 * @param {{points: {time: string, value: number}[], since: number, until: number, step: number, words: (value: number) => string, summary: string}} props
 *   `since` and `until` in milliseconds, `step` in seconds
 */
export function Bars({ points, since, until, step, words, summary }) {
  const most = Math.max(...points.map((point) => point.value), 0);
  const scale = WIDTH / Math.max(until - since, step * 1000);
  const width = Math.max(2, step * 1000 * scale - 2);
  return html`
    <figure class="bars">
      <p class="bars-most quiet" aria-hidden="true">${most > 0 ? words(most) : ""}</p>
      <svg viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label=${summary}>
        <line class="bars-ground" x1="0" x2=${WIDTH} y1=${HEIGHT} y2=${HEIGHT} />
        ${points.filter((point) => point.value > 0).map((point) => {
          const height = Math.max(2, (point.value / most) * HEIGHT);
          const left = Math.max(0, (Date.parse(point.time) - since) * scale);
          return html`<rect key=${point.time} x=${left + 1} y=${HEIGHT - height} width=${width} height=${height}><title>${`${brief(point.time)}: ${words(point.value)}`}</title></rect>`;
        })}
      </svg>
      <figcaption class="quiet" aria-hidden="true"><span>${brief(since)}</span><span>${brief(until)}</span></figcaption>
    </figure>
  `;
}
