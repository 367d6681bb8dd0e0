// Requests by verdict over time, stacked; the same as a table for those who cannot see it.

import uPlot from "../../vendor/uplot/uplot.js";
import { html, useEffect, useRef, useState } from "../html.js";
import { count, counted } from "../number.js";
import { useObserved } from "../observed.js";
import { theme } from "../theme.js";
import { brief } from "../time.js";

const HEIGHT = 220;

/** Lowest first: what was refused stands on the ground line, where it can be read. */
export const BANDS = [
  { name: "refused", title: "Refused" },
  { name: "warned", title: "Warned" },
  { name: "shadowed", title: "Shadow" },
  { name: "passed", title: "Allowed" },
];

/** Split calls into bands that add up to all of them, whether or not shadowed ones count as allowed. */
export function bandsOf(numbers) {
  const { calls, refused, warned, shadowed } = numbers;
  return { refused, warned, shadowed, passed: Math.max(0, calls - refused - warned - shadowed) };
}

/** @param {{series: object[], step: number, summary: string}} props as `GET /stats` tells them */
export function VerdictChart({ series, step, summary }) {
  const frame = useRef(null);
  const plot = useRef(null);
  const [at, setAt] = useState(null);
  const shade = useObserved(theme);

  useEffect(() => {
    plot.current = new uPlot(options(frame.current, step, setAt), stacked(series, step), frame.current);
    const observer = new ResizeObserver(([entry]) => {
      plot.current.setSize({ width: Math.max(200, Math.floor(entry.contentRect.width)), height: HEIGHT });
    });
    observer.observe(frame.current);
    return () => {
      observer.disconnect();
      plot.current.destroy();
    };
  }, [shade, step]);
  useEffect(() => plot.current?.setData(stacked(series, step)), [series]);

  return html`
    <div class="chart">
      <${Legend} point=${at === null ? null : (series[at] ?? series.at(-1))} />
      <div ref=${frame} class="chart-frame" role="img" aria-label=${summary}></div>
      <${AsTable} series=${series} />
    </div>
  `;
}

function Legend({ point }) {
  const values = point && bandsOf(point);
  return html`
    <div class="chart-legend">
      ${BANDS.map(({ name, title }) => html`
        <span key=${name}><span class="swatch ${name}"></span>${title}${values ? html` <b>${count(values[name])}</b>` : ""}</span>
      `)}
      <span class="quiet">${point ? brief(point.time) : ""}</span>
    </div>
  `;
}

function AsTable({ series }) {
  const [isOpen, setOpen] = useState(false);
  const rows = isOpen ? series.filter((point) => point.calls > 0).reverse() : [];
  return html`
    <details class="quiet-details" onToggle=${(event) => setOpen(event.currentTarget.open)}>
      <summary>As a table</summary>
      <div class="table-frame short">
        <table>
          <caption class="unseen">Requests by verdict over time, latest first</caption>
          <thead><tr><th scope="col">From</th>${BANDS.map(({ name, title }) => html`<th scope="col" class="number" key=${name}>${title}</th>`)}</tr></thead>
          <tbody>
            ${rows.map((point) => html`
              <tr key=${point.time}><th scope="row">${brief(point.time)}</th>
                ${BANDS.map(({ name }) => html`<td class="number" key=${name}>${count(bandsOf(point)[name])}</td>`)}</tr>
            `)}
          </tbody>
        </table>
        ${isOpen && html`<p class="quiet">Left out: ${counted(series.length - rows.length, "interval")} without a request.</p>`}
      </div>
    </details>
  `;
}

/**
 * Return columns as uPlot wants them: times, then each band on top of those below it. The last
 * value is there twice, at the beginning and at the end of its interval, which is drawn too.
 */
function stacked(series, step) {
  const points = [...series, ...series.slice(-1)];
  const times = points.map((point, index) => Date.parse(point.time) / 1000 + (index === series.length ? step : 0));
  const sums = points.map(() => 0);
  const columns = BANDS.map(({ name }) => points.map((point, index) => (sums[index] += bandsOf(point)[name])));
  return [times, ...columns.reverse()];
}

function options(frame, step, onPoint) {
  const style = getComputedStyle(frame);
  const colour = (name) => style.getPropertyValue(`--${name}`).trim();
  const axis = {
    stroke: colour("ink-quiet"),
    font: `12px ${style.fontFamily}`,
    grid: { stroke: colour("line"), width: 1 },
    ticks: { show: false },
  };
  const band = (name) => ({
    stroke: colour(name),
    fill: colour(`${name}-fill`),
    width: 1,
    points: { show: false },
    paths: uPlot.paths.stepped({ align: 1 }),
  });
  return {
    width: Math.max(200, frame.clientWidth),
    height: HEIGHT,
    padding: [8, 22, 0, 0], // half of the last time's name
    legend: { show: false },
    cursor: { points: { show: false }, drag: { x: false, y: false }, y: false },
    scales: { y: { range: (_, __, most) => [0, Math.max(4, most * 1.08)] } },
    // Highest first: each paints over the one it stands on.
    series: [{}, ...BANDS.map(({ name }) => band(name)).reverse()],
    axes: [
      { ...axis, values: (_, ticks) => ticks.map((tick) => tickWords(tick, step)), space: 76, size: 30 },
      { ...axis, values: (_, ticks) => ticks.map((tick) => (Number.isInteger(tick) ? count(tick) : "")), size: 48 },
    ],
    hooks: { setCursor: [(self) => onPoint(self.cursor.idx ?? null)] },
  };
}

function tickWords(seconds, step) {
  const at = new Date(seconds * 1000);
  const isMidnight = at.getHours() === 0 && at.getMinutes() === 0;
  if (step >= 3600 || isMidnight) {
    return at.toLocaleDateString("en-GB", { day: "numeric", month: "short" }) + (isMidnight ? "" : ` ${at.getHours()}:00`);
  }
  return at.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
}
