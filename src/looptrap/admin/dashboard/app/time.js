// Times in the viewer's zone, spans in words.

import { observed } from "./observed.js";

const EXACT = new Intl.DateTimeFormat("en-GB", {
  dateStyle: "medium",
  timeStyle: "long",
});
const CLOCK = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });
const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });

const TICK_MS = 5_000;

/** The time of the gateway, updated every few seconds. */
export const clock = observed(Date.now());

let offset = 0;

/** Use the time of the gateway: the viewer's clock may be wrong. */
export function setClock(iso) {
  const skew = Date.parse(iso) - Date.now();
  if (Number.isFinite(skew)) offset = Math.abs(skew) > 2_000 ? skew : 0;
  clock.set(now());
}

export function now() {
  return Date.now() + offset;
}

setInterval(() => clock.set(now()), TICK_MS);

/** "16 Nov 2026, 10:02:30 CET" */
export function exact(time) {
  return EXACT.format(moment(time));
}

/** "10:02:30", with the day where that is another. */
export function brief(time) {
  const at = moment(time);
  const isToday = at.toDateString() === new Date(now()).toDateString();
  return isToday ? CLOCK.format(at) : `${DAY.format(at)} ${CLOCK.format(at)}`;
}

/** "2 min ago", "in 30 s" */
export function relative(time, from = clock.value) {
  const seconds = (moment(time).getTime() - from) / 1000;
  if (Math.abs(seconds) < 5) return "just now";
  return seconds < 0 ? `${span(-seconds)} ago` : `in ${span(seconds)}`;
}

/** Seconds in words, with at most two units: "30 s", "4 min", "1 h 35 min", "3 d". */
export function span(seconds) {
  const whole = Math.round(seconds);
  if (whole < 90 && whole !== 60) return `${whole} s`;
  const minutes = Math.round(whole / 60);
  if (minutes < 90 && minutes !== 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return minutes % 60 && hours < 10 ? `${hours} h ${minutes % 60} min` : `${hours} h`;
  return `${Math.round(hours / 24)} d`;
}

/** As the API reads times. */
export function iso(ms) {
  return new Date(ms).toISOString();
}

function moment(time) {
  return time instanceof Date ? time : new Date(time);
}
