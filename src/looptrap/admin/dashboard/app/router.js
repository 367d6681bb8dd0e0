// Where in the dashboard the viewer is: `#/incidents?state=all`.

import { observed } from "./observed.js";

/** @type {{value: {path: string, query: Record<string, string>}}} */
export const place = observed(read());

addEventListener("hashchange", () => place.set(read()));

/** Return the link to a path; parameters that are undefined, null or empty are left out. */
export function href(path, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const tail = new URLSearchParams(given).toString();
  return `#${path}${tail && `?${tail}`}`;
}

/** Change the parameters of this place; `Back` does not come through here. */
export function refine(query) {
  history.replaceState(null, "", href(place.value.path, { ...place.value.query, ...query }));
  place.set(read());
}

export function go(path, query) {
  location.hash = href(path, query);
}

function read() {
  const [path, tail] = location.hash.slice(1).split(/\?(.*)/s);
  return { path: path || "/", query: Object.fromEntries(new URLSearchParams(tail ?? "")) };
}
