// Numbers with their units. What is not known is never shown as 0.

const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const COMPACT = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
const CENTS = new Intl.NumberFormat("en", { style: "currency", currency: "USD" });
const DOLLARS = new Intl.NumberFormat("en", {
  style: "currency",
  currency: "USD",
  maximumFractionDigits: 0,
});

export const NONE = "–";

/** "12,345" */
export function count(value) {
  return value === null || value === undefined ? NONE : WHOLE.format(value);
}

/** "12,345", from there on "123K" */
export function compact(value) {
  if (value === null || value === undefined) return NONE;
  return Math.abs(value) < 100_000 ? WHOLE.format(value) : COMPACT.format(value);
}

/** "1 call", "12 calls" */
export function counted(value, one, many = `${one}s`) {
  return `${count(value)} ${value === 1 ? one : many}`;
}

/** "$12.40", "$0.0042", "$1,240"; "unpriced" where no price is known. */
export function dollars(value) {
  if (value === null || value === undefined) return "unpriced";
  const size = Math.abs(value);
  if (size >= 1_000) return DOLLARS.format(value);
  if (size >= 0.01 || size === 0) return CENTS.format(value);
  return size < 0.0001 ? "< $0.0001" : `$${value.toPrecision(2)}`;
}

/** "41.8K tokens" */
export function tokens(value) {
  return value === null || value === undefined ? NONE : `${compact(value)} tokens`;
}

/** Of a whole: "3.1 %", "< 0.1 %" */
export function percent(part, whole) {
  if (!whole) return NONE;
  const value = (100 * part) / whole;
  if (value > 0 && value < 0.1) return "< 0.1 %";
  return `${value < 10 ? Math.round(value * 10) / 10 : Math.round(value)} %`;
}

/** Seconds as people read them: "420 ms", "1.3 s" */
export function latency(seconds) {
  if (seconds === null || seconds === undefined) return NONE;
  return seconds < 1 ? `${Math.round(seconds * 1000)} ms` : `${seconds.toFixed(1)} s`;
}
