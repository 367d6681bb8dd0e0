// Numbers over time, stacked; the same as a table for those who cannot see it.

import uPlot from "../../vendor/uplot/uplot.js";
import { html, useEffect, useRef, useState } from "../html.js";
import { counted } from "../number.js";
import { useObserved } from "../observed.js";
import { theme } from "../theme.js";
import { brief } from "../time.js";
import { zoneWords } from "./time_range.js";

const HEIGHT = 220;

/**
 * @typedef {{name: string, title: string, stroke: string, fill: string}} Band lowest first; colours of theme.css
 * @typedef {{time: string, values: Record<string, number>}} Point
 * @param {{points: Point[], bands: Band[], step: number, words: (value: number) => string, least: number, summary: string, caption: string}} props
 *   `step` in seconds; `least` is the lowest top of the scale
 */
export function StackedChart({ points, bands, step, words, least, summary, caption }) {
  const frame = useRef(null);
  const plot = useRef(null);
  const [at, setAt] = useState(null);
  const shade = useObserved(theme);
  const names = JSON.stringify(bands);

  useEffect(() => {
    plot.current = new uPlot(options(frame.current, { bands, step, words, least, onPoint: setAt }), stacked(points, bands, step), frame.current);
    const observer = new ResizeObserver(([entry]) => {
      plot.current.setSize({ width: Math.max(200, Math.floor(entry.contentRect.width)), height: HEIGHT });
    });
    observer.observe(frame.current);
    return () => {
      observer.disconnect();
      plot.current.destroy();
    };
  }, [shade, step, names, words]);
  useEffect(() => plot.current?.setData(stacked(points, bands, step)), [points]);

  return html`
    <div class="chart">
      <${Legend} bands=${bands} words=${words} point=${at === null ? null : (points[at] ?? points.at(-1))} />
      <div ref=${frame} class="chart-frame" role="img" aria-label=${summary}></div>
      <${AsTable} points=${points} bands=${bands} words=${words} caption=${caption} />
    </div>
  `;
}

function Legend({ bands, words, point }) {
  return html`
    <div class="chart-legend">
      ${bands.map(({ name, title, stroke, fill }) => html`
        <span key=${name}><span class="swatch" style=${{ background: `var(--${fill})`, borderColor: `var(--${stroke})` }}></span>${title}${point ? html` <b>${words(point.values[name] ?? 0)}</b>` : ""}</span>
      `)}
      <span class="quiet">${point ? brief(point.time) : zoneWords()}</span>
    </div>
  `;
}

function AsTable({ points, bands, words, caption }) {
  const [isOpen, setOpen] = useState(false);
  const rows = isOpen ? points.filter((point) => bands.some(({ name }) => point.values[name])).reverse() : [];
  return html`
    <details class="quiet-details" onToggle=${(event) => setOpen(event.currentTarget.open)}>
      <summary>As a table</summary>
      <div class="table-frame short">
        <table>
          <caption class="unseen">${caption}, latest first</caption>
          <thead><tr><th scope="col">From</th>${bands.map(({ name, title }) => html`<th scope="col" class="number" key=${name}>${title}</th>`)}</tr></thead>
          <tbody>
            ${rows.map((point) => html`
              <tr key=${point.time}><th scope="row">${brief(point.time)}</th>
                ${bands.map(({ name }) => html`<td class="number" key=${name}>${words(point.values[name] ?? 0)}</td>`)}</tr>
            `)}
          </tbody>
        </table>
        ${isOpen && html`<p class="quiet">Left out: ${counted(points.length - rows.length, "interval")} without a value.</p>`}
      </div>
    </details>
  `;
}

/**
 * Return columns as uPlot wants them: times, then each band on top of those below it. The last
 * value is there twice, at the beginning and at the end of its interval, which is drawn too.
 */
export function stacked(points, bands, step) {
  const drawn = [...points, ...points.slice(-1)];
  const times = drawn.map((point, index) => Date.parse(point.time) / 1000 + (index === points.length ? step : 0));
  const sums = drawn.map(() => 0);
  const columns = bands.map(({ name }) => drawn.map((point, index) => (sums[index] += point.values[name] ?? 0)));
  return [times, ...columns.reverse()];
}

function options(frame, { bands, step, words, least, onPoint }) {
  const style = getComputedStyle(frame);
  const colour = (name) => style.getPropertyValue(`--${name}`).trim();
  const axis = {
    stroke: colour("ink-quiet"),
    font: `12px ${style.fontFamily}`,
    grid: { stroke: colour("line"), width: 1 },
    ticks: { show: false },
  };
  const band = ({ stroke, fill }) => ({
    stroke: colour(stroke),
    fill: colour(fill),
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
    scales: { y: { range: (_, __, most) => [0, Math.max(least, most * 1.08)] } },
    // Highest first: each paints over the one it stands on.
    series: [{}, ...bands.map(band).reverse()],
    axes: [
      { ...axis, values: (_, ticks) => ticks.map((tick) => tickWords(tick, step)), space: 76, size: 30 },
      { ...axis, values: (_, ticks) => ticks.map((tick) => words(tick, true)), size: 60 },
    ],
    hooks: { setCursor: [(self) => onPoint(self.cursor.idx ?? null)] },
  };
}

/** A time on the axis, in the viewer's zone. */
export function tickWords(seconds, step) {
  const at = new Date(seconds * 1000);
  const isMidnight = at.getHours() === 0 && at.getMinutes() === 0;
  if (step >= 3600 || isMidnight) {
    return at.toLocaleDateString("en-GB", { day: "numeric", month: "short" }) + (isMidnight ? "" : ` ${at.getHours()}:00`);
  }
  return at.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
}
