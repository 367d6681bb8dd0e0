import assert from "node:assert/strict";
import test from "node:test";

import { advise } from "../../src/looptrap/admin/dashboard/app/advice.js";

const OPEN = { state: "open", mode: "enforce", action: "block", is_contained: true, refused: 3, stage: 0, projected_usd_an_hour: 12, label: null };
const CASES = [
  ["a contained loop is left refused", OPEN, "acknowledge", /cost nothing/],
  ["what somebody takes care of needs nothing, and says who", { ...OPEN, acknowledged: { by: "ada" } }, "", /and ada takes care of it/],
  ["an agent that never gives up is stopped", { ...OPEN, stage: 10, refused: 310 }, "kill", /310 calls/],
  ["in shadow mode the session is stopped", { ...OPEN, mode: "shadow", is_contained: false }, "kill", /shadow mode. About \$12.00 an hour/],
  ["a loop that is only warned is stopped", { ...OPEN, action: "warn", is_contained: false }, "kill", /no more than warn/],
  ["without a price nothing is made up", { ...OPEN, mode: "shadow", is_contained: false, projected_usd_an_hour: null }, "kill", /not known/],
  ["what is over is labelled", { ...OPEN, state: "closed" }, "label", /is over/],
  ["what is labelled needs nothing", { ...OPEN, state: "closed", label: "confirmed" }, "", /over/],
  ["a demo needs nothing", { ...OPEN, is_demo: true }, "", /no money/],
];

for (const [name, incident, action, why] of CASES) {
  test(name, () => {
    const advice = advise(incident);
    assert.equal(advice.action, action);
    assert.match(advice.why, why);
  });
}

test("a release is never recommended", () => assert.ok(CASES.every(([, incident]) => advise(incident).action !== "release")));
