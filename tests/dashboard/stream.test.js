import assert from "node:assert/strict";
import test from "node:test";

import { messages } from "../../src/looptrap/admin/dashboard/app/stream.js";

async function read(chunks) {
  const found = [];
  let signs = 0;
  for await (const message of messages(new Response(new Blob(chunks).stream()), () => (signs += 1))) found.push(message);
  assert.ok(signs > 0);
  return found;
}

test("messages come whole, however they are cut", async () => {
  const found = await read(["event: sta", 'ts\nid: 7\ndata: {"a"', ": 1}\n", "\n: ping\n\nevent: change\ndata: x\ndata: y\n\n"]);
  assert.deepEqual(found, [
    { event: "stats", id: "7", data: '{"a": 1}' },
    { event: "change", id: null, data: "x\ny" },
  ]);
});

test("a comment is a sign of life, not a message", async () => assert.deepEqual(await read([": ping\n\n"]), []));
