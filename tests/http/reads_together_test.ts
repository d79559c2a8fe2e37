/** Reads that are asked for together: each caller sees their own log, as it is now, or their own refusal. Spec 2.4, 2.6. */

import assert from "node:assert/strict";
import { append, newAgents, watchCalls } from "../support/agents.ts";
import { newPaidKey, newProjectToken } from "../support/factories.ts";
import { onEveryBackend, onOneBackend } from "../support/harness.ts";

onEveryBackend((test) => {
  test("heads asked for together are those of each caller, and refusals are each one's own", async (world) => {
    const { tokens } = await newAgents(world, 6, 1_000_000);
    for (const [i, token] of tokens.entries()) {
      for (let sequence = 1; sequence <= i; sequence++) await append(world, token, sequence);
    }
    const revoked = await newPaidKey(world);
    await world.sql.query("update app.api_keys set revoked_at = now() where id = $1", [revoked.keyId]);
    const callers = [
      ...tokens,
      revoked.token,
      (await newPaidKey(world)).token,
      newProjectToken(),
      tokens[3]!,
    ];
    const alone = await Promise.all(
      callers.slice(0, 1).map((token) => world.request("GET", "/head", { token })),
    );
    const { db, calls } = watchCalls(world.platform.db);
    const service = world.with({ db });
    const answers = await Promise.all(callers.map((token) => service.request("GET", "/head", { token })));
    assert.deepEqual(answers.slice(0, 6).map(({ body }) => body.sequence_number), [0, 1, 2, 3, 4, 5]);
    assert.deepEqual(answers.slice(6, 9).map(({ status, body }) => [status, body.error]), [
      [401, "api_key_revoked"],
      [404, "no_replication_entries"],
      [404, "no_replication_entries"],
    ]);
    assert.deepEqual(answers[9]!.body, answers[3]!.body);
    assert.deepEqual(answers[0]!.body, alone[0]!.body);
    assert.ok(calls.includes("read_heads"), calls.join());
  });

  test("metadata asked for together is that of each caller, and refusals are each one's own", async (world) => {
    const { tokens } = await newAgents(world, 4, 1_000_000);
    for (const [i, token] of tokens.entries()) {
      for (let sequence = 1; sequence <= i; sequence++) await append(world, token, sequence);
    }
    const revoked = await newPaidKey(world);
    await world.sql.query("update app.api_keys set revoked_at = now() where id = $1", [revoked.keyId]);
    const callers = [...tokens, newProjectToken(), revoked.token];
    const alone = [];
    for (const token of callers) alone.push(await world.request("GET", "/metadata", { token }));
    const { db, calls } = watchCalls(world.platform.db);
    const service = world.with({ db });
    const answers = await Promise.all(callers.map((token) => service.request("GET", "/metadata", { token })));
    assert.deepEqual(answers.slice(0, 5).map(({ body }) => body), alone.slice(0, 5).map(({ body }) => body));
    assert.deepEqual(answers.map(({ body }) => body.envelopeCount), [1, 2, 3, 4, 0, undefined]);
    assert.deepEqual([answers[5]!.status, answers[5]!.body.error], [401, "api_key_revoked"]);
    assert.equal(calls.filter((name) => name === "read_metadatas").length, 2, calls.join());
  });
});

onOneBackend((test) => {
  test("a head is never older than what was acknowledged before it was asked for", async (world) => {
    const { tokens } = await newAgents(world, 8, 1_000_000);
    await Promise.all(tokens.map(async (token) => {
      for (let sequence = 1; sequence <= 10; sequence++) {
        assert.equal((await append(world, token, sequence)).status, 200);
        const { body } = await world.request("GET", "/head", { token });
        assert.equal(body.sequence_number, sequence);
      }
    }));
  });
});
