// A series of `GET /spending` as bands and points of a stacked chart, and the steps of a period. Pure except for the zone.

const MOST_BANDS = 7;
const MOST_POINTS = 2_000;
const REST = "\0rest";
const STEPS = [60, 300, 900, 1_800, 3_600, 10_800, 21_600, 43_200, 86_400, 604_800, 2_592_000];
const MOST_STEPS = 80;
const MINUTES_ARE_KEPT_S = 2 * 86_400;

/**
 * The names with the highest sums have a band each, the rest has one; a step without usage is 0.
 * @param {object[]} series
 * @param {{since: number, until: number, step: number, of: (point: object) => number | null, called: (name?: string) => string}} how
 *   `since` and `until` in milliseconds, `step` in seconds
 */
export function stackedUsage(series, { since, until, step, of, called, offset = utcOffset() }) {
  const sums = new Map();
  for (const point of series) sums.set(point.name, (sums.get(point.name) ?? 0) + (of(point) ?? 0));
  const names = [...sums.keys()].sort((one, other) => sums.get(other) - sums.get(one));
  // One name more than there are bands needs no band for the rest.
  const shown = new Set(names.slice(0, names.length > MOST_BANDS + 1 ? MOST_BANDS : names.length));
  const points = new Map();
  const begin = Math.floor((since / 1000 + offset) / step) * step - offset;
  const end = Math.min(until / 1000, begin + MOST_POINTS * step);
  for (let at = begin; at < end; at += step) points.set(at, {});
  for (const point of series) {
    const values = points.get(Date.parse(point.time) / 1000);
    const name = shown.has(point.name) ? key(point.name) : REST;
    if (values) values[name] = (values[name] ?? 0) + (of(point) ?? 0);
  }
  const bands = [...shown].map((name, index) => ({ name: key(name), title: called(name), ...hue(index) }));
  if (names.length > shown.size) bands.push({ name: REST, title: `${names.length - shown.size} others`, ...hue(MOST_BANDS) });
  return { bands, points: [...points].map(([at, values]) => ({ time: new Date(at * 1000).toISOString(), values })) };
}

/** Seconds by which the viewer's zone is ahead of UTC: steps of a day begin at its midnight. */
export function utcOffset() {
  return -60 * new Date().getTimezoneOffset();
}

/** The step for a period: few enough to see, and no finer than what is kept of so long ago. */
export function stepOf(seconds, age) {
  const finest = age > MINUTES_ARE_KEPT_S ? 3_600 : 60;
  return STEPS.find((step) => step >= finest && seconds / step <= MOST_STEPS) ?? STEPS.at(-1);
}

function key(name) {
  return `name ${name ?? ""}`;
}

function hue(index) {
  return { stroke: `hue-${index}`, fill: `hue-${index}` };
}
