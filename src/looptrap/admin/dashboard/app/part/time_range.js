// A period: one of a few that end now, or from and until times that the viewer enters.

import { html } from "../html.js";
import { beginOf } from "../range.js";
import { refine } from "../router.js";
import { iso } from "../time.js";

const CUSTOM = "custom";

/** The viewer's time zone, in which all times are shown: "Europe/Berlin, UTC+01:00". */
export function zoneWords(at = new Date()) {
  const minutes = -at.getTimezoneOffset();
  const size = Math.abs(minutes);
  const two = (value) => String(value).padStart(2, "0");
  const offset = `UTC${minutes < 0 ? "−" : "+"}${two(Math.floor(size / 60))}:${two(size % 60)}`;
  const name = Intl.DateTimeFormat().resolvedOptions().timeZone;
  return !name || name === "UTC" ? "UTC" : `${name}, ${offset}`;
}

/** A time of the API as a `datetime-local` input has it, in the viewer's zone; empty if it is none. */
export function toInput(time) {
  const at = new Date(time ?? NaN);
  if (Number.isNaN(at.getTime())) return "";
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

/** The time in a `datetime-local` input as the API has it; empty if it is none. */
export function fromInput(text) {
  const at = new Date(text);
  return Number.isNaN(at.getTime()) ? "" : iso(at.getTime());
}

/** Both ends of a period once one was entered; the other is dropped where it would be on the wrong side. */
export function ends(query, name, time) {
  const { since = "", until = "" } = { ...query, [name]: time };
  const isReversed = Boolean(since && until) && Date.parse(since) >= Date.parse(until);
  if (!isReversed) return { since, until };
  return name === "since" ? { since, until: "" } : { since: "", until };
}

/**
 * Choose a period; it is kept in the address as `range`, or as `since` and `until`.
 * @param {{query: object, choices: Record<string, string>, fallback: string}} props
 */
export function TimeRange({ query, choices, fallback }) {
  const isCustom = Boolean(query.since || query.until || query.range === CUSTOM);
  const choose = (event) => {
    const range = event.currentTarget.value;
    // The fields begin with what is shown, to be changed from there.
    refine(range === CUSTOM ? { range, since: beginOf(query.range ?? fallback) } : { range: range === fallback ? "" : range, since: "", until: "" });
  };
  return html`
    <label class="time-choice"><span>Time</span>
      <select value=${isCustom ? CUSTOM : (query.range ?? fallback)} onChange=${choose}>
        ${Object.entries({ ...choices, [CUSTOM]: "custom …" }).map(([name, words]) => html`<option key=${name} value=${name}>${words}</option>`)}
      </select>
    </label>
    ${isCustom && html`<${RangeFields} query=${query} />`}
  `;
}

/** The two ends of a period, in the viewer's zone. */
export function RangeFields({ query }) {
  const enter = (name) => (event) => refine({ range: CUSTOM, ...ends(query, name, fromInput(event.currentTarget.value)) });
  return Object.entries({ since: "From", until: "Until" }).map(([name, label]) => html`
    <label key=${name} class="time-field"><span>${label}</span><input type="datetime-local" value=${toInput(query[name])} title=${`in ${zoneWords()}`} onChange=${enter(name)} /></label>
  `);
}
