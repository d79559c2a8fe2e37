/** TXT records from a real name server on loopback, over UDP and TCP, which also fails in its ways. */

import assert from "node:assert/strict";
import { ApiError } from "../../supabase/functions/_shared/errors.ts";
import { openNameService } from "../../supabase/functions/_shared/platform/name_service.ts";
import { type NameServer, startNameServer } from "../support/name_server.ts";

const NAME = "_agent-state-challenge.victim.example";
const TIMEOUT_MS = 500;

test("records are put together from their parts, each by itself", async (server, names) => {
  server.zone.set(NAME, [["agent-state-", "verification=", "1"], ["other"], [""]]);
  assert.deepEqual(await names.findTexts(NAME), ["agent-state-verification=1", "other", ""]);
  assert.deepEqual(server.questions, [`udp ${NAME}.`]);
});

test("a name with more than UDP carries is asked for over TCP", async (server, names) => {
  const records = Array.from({ length: 20 }, (_, i) => [`${i}:`, "x".repeat(200)]);
  server.zone.set(NAME, records);
  assert.deepEqual(await names.findTexts(NAME), records.map((parts) => parts.join("")));
  assert.ok(server.questions.includes(`tcp ${NAME}.`));
});

test(
  "a name without records, that does not exist, or whose server refuses, has none",
  async (server, names) => {
    assert.deepEqual(await names.findTexts(NAME), []);
    const nothing: [string[][], "SERVFAIL", "REFUSED"] = [[], "SERVFAIL", "REFUSED"];
    for (const answer of nothing) {
      server.zone.set(NAME, answer);
      assert.deepEqual(await names.findTexts(NAME), [], String(answer));
    }
  },
);

test("the search domains of the machine are never asked", async (server, names) => {
  await names.findTexts("a.example");
  assert.deepEqual(new Set(server.questions), new Set(["udp a.example."]));
});

for (const failure of ["silent", "garbage"] as const) {
  test(`a server that answers with ${failure} is 503 in bounded time`, async (server, names) => {
    server.zone.set(NAME, failure);
    const startedAt = performance.now();
    await assertUnavailable(names.findTexts(NAME));
    assert.ok(performance.now() - startedAt < 10 * TIMEOUT_MS);
  });
}

test("a server that is not there is 503", async (server, _names) => {
  const gone = await startNameServer();
  await gone[Symbol.asyncDispose]();
  assert.notEqual(gone.address.port, server.address.port);
  await assertUnavailable(
    openNameService({ nameServer: gone.address, timeoutMs: TIMEOUT_MS }).findTexts(NAME),
  );
});

test("a name that the DNS cannot hold is 503, and nobody is asked", async (server, names) => {
  await assertUnavailable(names.findTexts(`${"a".repeat(64)}.example`));
  assert.deepEqual(server.questions, []);
});

async function assertUnavailable(lookup: Promise<unknown>): Promise<void> {
  await assert.rejects(lookup, (error) => {
    assert.ok(error instanceof ApiError, String(error));
    assert.deepEqual([error.code, error.status, Object.keys(error.details)], ["dns_unavailable", 503, []]);
    return true;
  });
}

/** Defines a test with a server of its own. Sanitizers are off: a lookup that was given up ends later. */
function test(
  name: string,
  run: (server: NameServer, names: ReturnType<typeof openNameService>) => Promise<void>,
): void {
  Deno.test({
    name,
    sanitizeOps: false,
    sanitizeResources: false,
    fn: async () => {
      await using server = await startNameServer();
      await run(server, openNameService({ nameServer: server.address, timeoutMs: TIMEOUT_MS }));
    },
  });
}
