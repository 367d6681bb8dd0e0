// The pages there are: what is listed here is in the navigation and can be linked to, nothing else.

import { href } from "./router.js";

/** @typedef {{name: string, path: string, title: string, key?: string, load: () => Promise<{default: Function}>}} Page */

/** In the order of the navigation; a page without `key`, pressed after `g`, is not in it. */
export const PAGES = [
  { name: "overview", path: "/", title: "Overview", key: "o", load: () => import("./page/overview.js") },
  { name: "incidents", path: "/incidents", title: "Incidents", key: "i", load: () => import("./page/incidents.js") },
  { name: "incident", path: "/incidents/:id", title: "Incident", load: () => import("./page/incident.js") },
  { name: "callers", path: "/callers", title: "Callers", key: "c", load: () => import("./page/callers.js") },
  { name: "breach", path: "/breaches/:id", title: "Budget breach", load: () => import("./page/breach.js") },
  { name: "settings", path: "/settings", title: "Settings", key: "s", load: () => import("./page/settings.js") },
  { name: "try", path: "/try", title: "Try it", key: "t", load: () => import("./page/try.js") },
  { name: "alerts", path: "/alerts", title: "Alerts", key: "a", load: () => import("./page/alerts.js") },
  { name: "status", path: "/status", title: "Status", key: "h", load: () => import("./page/status.js") },
];

/** Return the page at a path with what the path names, or null. */
export function pageAt(path) {
  for (const page of PAGES) {
    const names = [...page.path.matchAll(/:(\w+)/g)].map((match) => match[1]);
    const form = new RegExp(`^${page.path.replaceAll(/:\w+/g, "([^/]+)")}$`);
    const found = form.exec(path);
    if (found) {
      const values = found.slice(1).map(decoded);
      return { page, named: Object.fromEntries(names.map((name, index) => [name, values[index]])) };
    }
  }
  return null;
}

/** Return the link to a page by its name; undefined where there is no such page, so that nothing is a dead link. */
export function linkTo(name, query = {}, named = {}) {
  const page = PAGES.find((one) => one.name === name);
  const path = page?.path.replaceAll(/:(\w+)/g, (_, part) => encodeURIComponent(named[part]));
  return path && href(path, query);
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
