import "./browser.js";
import assert from "node:assert/strict";
import test from "node:test";

import { go, href, place, refine } from "../../src/looptrap/admin/dashboard/app/router.js";
import { linkTo, PAGES, pageAt } from "../../src/looptrap/admin/dashboard/app/pages.js";
import { table } from "./table.js";

table(href, [
  [["/"], "#/"],
  [["/incidents", { state: "all", q: "a b&c" }], "#/incidents?state=all&q=a+b%26c"],
  [["/incidents", { state: "", caller: null, rule: undefined }], "#/incidents"],
]);

table(linkTo, [
  [["incident", {}, { id: "inc/1 ?" }], "#/incidents/inc%2F1%20%3F"],
  [["incidents", { state: "all" }], "#/incidents?state=all"],
  [["no-such-page"], undefined],
]);

test("a refined place has the parameters that were changed, and the others", () => {
  refine({ state: "all", q: "x" });
  refine({ q: "" });
  assert.deepEqual(place.value, { path: "/", query: { state: "all" } });
});

test("going to a place sets the address", () => {
  go("/status", { q: "store" });
  assert.equal(location.hash, "#/status?q=store");
});

test("a path with an id names the page and the id", () => {
  const { page, named } = pageAt("/incidents/inc%2F1");
  assert.deepEqual([page.name, named], ["incident", { id: "inc/1" }]);
});

test("what is not percent-encoded well is taken as it is", () => {
  assert.deepEqual(pageAt("/incidents/50%").named, { id: "50%" });
});

test("an unknown path has no page", () => assert.equal(pageAt("/nowhere"), null));

test("no two pages have the same key or path", () => {
  for (const field of ["name", "path", "key"]) {
    const values = PAGES.map((page) => page[field]).filter(Boolean);
    assert.equal(new Set(values).size, values.length, field);
  }
});
