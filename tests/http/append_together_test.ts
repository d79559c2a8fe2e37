/** Appends that share a transaction: as exact, and as separate, as if each had come alone. Spec 4.2; design 4. */

import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { ApiError } from "../../supabase/functions/_shared/errors.ts";
import { append, newAgents, watchCalls } from "../support/agents.ts";
import {
  balanceOf,
  chunk,
  newPaidKey,
  newProjectToken,
  replicateBody,
  sha256Hex,
} from "../support/factories.ts";
import { type Answer, onEveryBackend, onOneBackend, type World } from "../support/harness.ts";
import { newHook } from "../support/hooks.ts";

const AGENTS = 32;

onEveryBackend((test) => {
  test("what arrives together is written together, and each is answered for itself", async (world) => {
    const { accountId, tokens } = await newAgents(world, AGENTS, 1_000_000);
    const { db, calls } = watchCalls(world.platform.db);
    const service = world.with({ db });
    const blocks = tokens.map(() => randomBytes(1_000));
    const answers = await Promise.all(tokens.map((token, i) => append(service, token, 1, blocks[i])));
    for (const [i, { status, body }] of answers.entries()) {
      const { merkle_root } = replicateBody(chunk(1, blocks[i]!));
      assert.deepEqual([status, body], [200, { accepted: 1, merkle_root, sequence_number: 1 }]);
    }
    assert.ok(calls.includes("append_logs"), calls.join());
    assert.ok(calls.length < AGENTS / 2, calls.join());
    assert.equal(await balanceOf(world, accountId), 1_000_000 - AGENTS * 45);
    for (const [i, token] of tokens.entries()) {
      const { body } = await world.request("GET", "/replay?since=0", { token });
      assert.deepEqual(body.chunks.map((entry: { block_hash: string }) => entry.block_hash), [
        sha256Hex(new Uint8Array(1)),
        sha256Hex(blocks[i]!),
      ]);
    }
  });

  test("whoever is refused among others is refused alone, with their own code", async (world) => {
    const { tokens } = await newAgents(world, 12, 1_000_000);
    const [a, b, gap, hole, split, again, overlap] = tokens as string[];
    const poor = await newPaidKey(world, 46);
    assert.equal((await append(world, poor.token, 0, new Uint8Array(1))).status, 200);
    const revoked = await newPaidKey(world);
    assert.equal((await append(world, revoked.token, 0)).status, 200);
    await world.sql.query("update app.api_keys set revoked_at = now() where id = $1", [revoked.keyId]);
    const known = chunk(0, new Uint8Array(1));
    const sent: [string, Record<string, unknown>[], number, string | undefined][] = [
      [a!, [chunk(1)], 200, undefined],
      [gap!, [chunk(3)], 409, "sequence_gap"],
      [hole!, [chunk(1), chunk(3)], 409, "sequence_gap"],
      [split!, [chunk(0)], 409, "split_brain_detected"],
      [poor.token, [chunk(1, randomBytes(1_001))], 402, "insufficient_credits"],
      [revoked.token, [chunk(1)], 401, "api_key_revoked"],
      [newProjectToken(), [chunk(5)], 409, "sequence_gap"],
      [newProjectToken(), [chunk(1)], 200, undefined],
      [again!, [known], 200, undefined],
      [overlap!, [known, chunk(1), chunk(2)], 200, undefined],
      [b!, [chunk(1), chunk(2), chunk(3)], 200, undefined],
    ];
    const answers = await Promise.all(
      sent.map(([token, chunks]) =>
        world.request("POST", "/replicate", { token, body: replicateBody(...chunks) })
      ),
    );
    assert.deepEqual(
      answers.map(({ status, body }) => [status, body.error]),
      sent.map(([, , status, code]) => [status, code]),
    );
    assert.deepEqual(answers[8]!.body, { idempotent: true });
    assert.deepEqual([answers[9]!.body.accepted, answers[9]!.body.sequence_number], [2, 2]);
    assert.deepEqual([answers[10]!.body.accepted, answers[10]!.body.sequence_number], [3, 3]);
    assert.equal(await balanceOf(world, poor.accountId), 45);
    for (const token of [gap, hole, split]) {
      assert.equal((await world.request("GET", "/head", { token: token! })).body.sequence_number, 0);
    }
  });

  test("32 agents of one account spend it to the last milli-cent and not one more", async (world) => {
    const rounds = 4;
    // Enough for all but the last five appends.
    const { accountId, tokens } = await newAgents(world, AGENTS, (AGENTS * rounds - 5) * 45 + 44);
    let accepted = 0;
    let refused = 0;
    await Promise.all(tokens.map(async (token) => {
      for (let sequence = 1; sequence <= rounds; sequence++) {
        const { status, body } = await append(world, token, sequence, randomBytes(1_000));
        if (status === 200) accepted++;
        else {
          assert.deepEqual([status, body.error], [402, "insufficient_credits"]);
          refused++;
          break;
        }
      }
    }));
    assert.equal(await balanceOf(world, accountId), 44 + (AGENTS * rounds - 5 - accepted) * 45);
    assert.ok(accepted <= AGENTS * rounds - 5 && refused > 0, `${accepted} accepted, ${refused} refused`);
    const { rows } = await world.sql.query(
      "select count(*)::int, sum(bytes)::int as bytes from app.credit_ledger where account_id = $1 and bytes > 1",
      [accountId],
    );
    assert.deepEqual(rows, [{ count: accepted, bytes: accepted * 1_000 }]);
  });

  test("a trial's quota is not exceeded by appends that share a transaction", async (world) => {
    const service = world.with({ settings: { projectQuotaBytes: 2_500 } });
    const tokens = Array.from({ length: 8 }, newProjectToken);
    for (const sequence of [0, 1]) {
      const answers = await Promise.all(tokens.map((t) => append(service, t, sequence, randomBytes(1_000))));
      assert.deepEqual(answers.map(({ status }) => status), tokens.map(() => 200));
    }
    const over = await Promise.all(tokens.map((t) => append(service, t, 2, randomBytes(1_000))));
    assert.deepEqual(
      over.map(({ body }) => [body.error, body.stored_bytes]),
      tokens.map(() => ["trial_quota_exceeded", 2_000]),
    );
  });

  test("several services on one database share accounts and logs without losing or doubling anything", async (world) => {
    const { accountId, tokens } = await newAgents(world, 12, 10_000_000);
    const services = [0, 1, 2].map(() => world.with({}));
    const logged = world.logs.length;
    const rounds = 5;
    // Each agent's block is sent to all services at once: one writes it, the others find it there.
    await Promise.all(tokens.map(async (token) => {
      for (let sequence = 1; sequence <= rounds; sequence++) {
        const block = randomBytes(1_000);
        const answers = await Promise.all(services.map((each) => append(each, token, sequence, block)));
        assert.deepEqual(
          answers.map(({ status }) => status),
          [200, 200, 200],
          answers.map((a) => a.text).join(),
        );
        assert.equal(answers.filter(({ body }) => body.accepted === 1).length, 1);
      }
    }));
    assert.equal(await balanceOf(world, accountId), 10_000_000 - tokens.length * rounds * 45);
    assert.deepEqual(world.logs.slice(logged).filter(({ event }) => event === "database_error"), []);
  });
});

onOneBackend((test) => {
  test("when a shared call fails, each of its requests is tried by itself", async (world) => {
    const { accountId, tokens } = await newAgents(world, 8, 1_000_000);
    const { db, calls } = watchCalls(world.platform.db, {
      append_logs: () => Promise.reject(new ApiError("internal_error")),
    });
    const answers = await sendAll(world.with({ db }), tokens, 1);
    assert.deepEqual(answers.map(({ status }) => status), tokens.map(() => 200));
    assert.ok(calls.includes("append_logs"));
    assert.equal(await balanceOf(world, accountId), 1_000_000 - tokens.length * 3);
  });

  test("when the answer of a shared call is lost, what it wrote is not written or charged again", async (world) => {
    const { accountId, tokens } = await newAgents(world, 8, 1_000_000);
    const { db } = watchCalls(world.platform.db, {
      append_logs: async (args) => {
        await world.platform.db.call("append_logs", args);
        throw new ApiError("internal_error");
      },
    });
    const answers = await sendAll(world.with({ db }), tokens, 1);
    assert.deepEqual(answers.map(({ status }) => status), tokens.map(() => 200));
    assert.ok(answers.some(({ body }) => body.idempotent === true));
    assert.equal(await balanceOf(world, accountId), 1_000_000 - tokens.length * 3);
  });

  test("a log that somebody holds keeps nobody else waiting", async (world) => {
    const { tokens } = await newAgents(world, 8, 1_000_000);
    const { rows: [held] } = await world.sql.query(
      `select l.id from app.logs l join app.api_keys k on k.account_id = l.member_id where k.key_hash = $1`,
      [createHash("sha256").update(tokens[0]!).digest()],
    );
    const holder = await holdRow(world, `select from app.logs where id = ${held.id} for update`);
    try {
      const first = append(world, tokens[0]!, 1);
      let released = false;
      first.then(() => released = true);
      for (const sequence of [1, 2, 3]) {
        const answers = await sendAll(world, tokens.slice(1), sequence);
        assert.deepEqual(answers.map(({ status }) => status), tokens.slice(1).map(() => 200));
      }
      assert.equal(released, false);
      await holder.release();
      assert.equal((await first).status, 200);
    } finally {
      await holder.release();
    }
  });

  test("an account that somebody holds does not keep other accounts' appends from being written", async (world) => {
    const keys = await Promise.all(Array.from({ length: 8 }, () => newPaidKey(world)));
    const tokens = keys.map(({ token }) => token);
    await sendAll(world, tokens, 0);
    const holder = await holdRow(
      world,
      `select from app.accounts where id = '${keys[5]!.accountId}' for update`,
    );
    try {
      const answers = tokens.map((token) => append(world, token, 1));
      let released = false;
      answers[5]!.then(() => released = true);
      const others = await Promise.all(answers.filter((_, i) => i !== 5));
      assert.deepEqual(others.map(({ status }) => status), others.map(() => 200));
      assert.equal(released, false);
      await holder.release();
      assert.equal((await answers[5]!).status, 200);
    } finally {
      await holder.release();
    }
  });

  test("webhooks are told of every append of a shared call, once", async (world) => {
    const hook = await newHook(world, "http://127.0.0.1:9/");
    const { accountId, tokens } = await newAgents(world, 6, 1_000_000);
    await world.sql.query("update app.webhooks set account_id = $1 where account_id = $2", [
      accountId,
      hook.accountId,
    ]);
    await sendAll(world, tokens, 1);
    const { rows } = await world.sql.query(
      `select (d.payload::jsonb -> 'data')::text as data from app.webhook_deliveries d
         join app.webhooks w on w.id = d.webhook_id where w.account_id = $1`,
      [accountId],
    );
    const told = { accepted: 1, bytes: 64, sequence_number: 1 };
    assert.deepEqual(rows.map(({ data }) => JSON.parse(data)), tokens.map(() => told));
  });

  test("a key's use and a device are noted also when its appends share calls", async (world) => {
    const { tokens } = await newAgents(world, 6, 1_000_000);
    await world.sql.query("update app.api_keys set last_used_at = null");
    const headers = { "x-device-id": "laptop" };
    for (const sequence of [1, 2]) {
      const answers = await Promise.all(
        tokens.map((token) =>
          world.request("POST", "/replicate", { token, headers, body: replicateBody(chunk(sequence)) })
        ),
      );
      assert.deepEqual(answers.map(({ status }) => status), tokens.map(() => 200));
    }
    const { body } = await world.request("GET", "/metadata", { token: tokens[0]! });
    assert.deepEqual([body.devicesInSync, body.syncOpsUsed], [1, 3 * tokens.length]);
    const hashes = tokens.map((token) => createHash("sha256").update(token).digest());
    const { rows } = await world.sql.query(
      "select count(*)::int from app.api_keys where key_hash = any ($1) and last_used_at is not null",
      [hashes],
    );
    assert.equal(rows[0].count, tokens.length);
  });
});

/** One block of 64 bytes from each agent, all at once. */
function sendAll(service: Pick<World, "request">, tokens: string[], sequence: number): Promise<Answer[]> {
  return Promise.all(tokens.map((token) => append(service, token, sequence)));
}

/** Keeps a lock on a connection of its own until it is released. */
async function holdRow(world: World, lock: string): Promise<{ release(): Promise<void> }> {
  const { default: pg } = await import("pg");
  const client = new pg.Client({ connectionString: world.databaseUrl });
  await client.connect();
  await client.query("begin");
  await client.query(lock);
  let held = true;
  return {
    async release() {
      if (!held) return;
      held = false;
      await client.query("commit");
      await client.end();
    },
  };
}
