/**
 * Whatever stops an upload half-way: the sequence is never stuck, the money is neither lost nor taken twice, and
 * the same request again just works. Spec 3; design section 4.
 */

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { ApiError } from "../../supabase/functions/_shared/errors.ts";
import type { BlobStore, Database } from "../../supabase/functions/_shared/platform/mod.ts";
import { sweepSnapshots } from "../../supabase/functions/v2-agent-state/flows/sweep_snapshots.ts";
import { balanceOf, endLeases, newPaidKey, type PaidKey, snapshotBody } from "../support/factories.ts";
import { type Answer, onEveryBackend, type World } from "../support/harness.ts";

const PRICE = 45;
const OPENING = 1000;

onEveryBackend((test) => {
  for (const [name, blobs] of Object.entries(brokenStores())) {
    test(`a blob store that ${name} answers 503 storage_unavailable, refunds, and the retry is free`, async (world) => {
      const { key, body } = await newUpload(world);
      const broken = world.with({ blobs: blobs(world.platform.blobs) });
      const failed = await broken.request("POST", "/snapshot", { token: key.token, body });
      assert.deepEqual([failed.status, failed.body.error], [503, "storage_unavailable"]);
      assert.match(failed.headers.get("retry-after") ?? "", /^\d+$/);
      assert.equal(await balanceOf(world, key.accountId), OPENING);
      assert.equal((await world.request("GET", "/snapshot/agent/latest", { token: key.token })).status, 404);
      await expectSuccess(world, key, body);
      await expectSound(world, key);
    });
  }

  test("a snapshot whose upload failed does not let the next sequence through", async (world) => {
    const { key, body } = await newUpload(world);
    const broken = world.with({ blobs: { put: () => Promise.reject(new Error("down")) } });
    await broken.request("POST", "/snapshot", { token: key.token, body });
    const next = await world.request("POST", "/snapshot", {
      token: key.token,
      body: snapshotBody({ sequence_number: 1 }),
    });
    assert.deepEqual([next.status, next.body.error], [409, "sequence_gap"]);
  });

  for (const point of ["before the upload", "during the upload", "before the confirmation"] as const) {
    test(`a crash ${point}: the same request again takes over the debit`, async (world) => {
      const { key, body } = await newUpload(world);
      await crash(world, key, body, point);
      assert.equal(await balanceOf(world, key.accountId), OPENING - PRICE);
      await expectSuccess(world, key, body);
      await expectSound(world, key);
    });

    test(`a crash ${point}: another snapshot may take the sequence at once, and the debit comes back`, async (world) => {
      const { key, body } = await newUpload(world);
      await crash(world, key, body, point);
      await expectSuccess(world, key, snapshotBody({}, randomBytes(1000)));
      await expectSound(world, key);
    });

    test(`a crash ${point}: the sweep refunds it after the lease and removes what it left`, async (world) => {
      const { key, body } = await newUpload(world);
      await crash(world, key, body, point);
      await sweepSnapshots(world.platform, 1000);
      assert.equal(await balanceOf(world, key.accountId), OPENING - PRICE, "not before the lease is over");
      await endLeases(world, key);
      await Promise.all([1, 2, 3].map(() => sweepSnapshots(world.platform, 1000)));
      await sweepSnapshots(world.platform, 1000);
      assert.equal(await balanceOf(world, key.accountId), OPENING);
      const { rows } = await world.sql.query(
        `select 1 from app.snapshot_attempts t join app.snapshots s on s.id = t.snapshot_id where s.account_id = $1`,
        [key.accountId],
      );
      assert.equal(rows.length, 0);
      await expectSuccess(world, key, body);
      await expectSound(world, key);
    });
  }

  test("a lapsed upload is settled by the agent's next write", async (world) => {
    const { key, body } = await newUpload(world, PRICE);
    await crash(world, key, body, "before the upload");
    await endLeases(world, key);
    // The balance is in the lapsed hold; the write can be paid only because it settles that first.
    await expectSuccess(world, key, snapshotBody({}, randomBytes(1000)));
    assert.equal(await balanceOf(world, key.accountId), 0);
  });

  test("a confirmation that comes after its lease was settled is refused, and the retry works", async (world) => {
    const { key, body } = await newUpload(world);
    const late = world.with({
      blobs: {
        async put(name, bytes) {
          await world.platform.blobs.put(name, bytes);
          await endLeases(world, key);
          await sweepSnapshots(world.platform, 1000);
        },
      },
    });
    const answer = await late.request("POST", "/snapshot", { token: key.token, body });
    assert.deepEqual([answer.status, answer.body.error], [503, "storage_unavailable"]);
    assert.equal(await balanceOf(world, key.accountId), OPENING);
    await expectSuccess(world, key, body);
    await expectSound(world, key);
  });

  test("a confirmation whose answer is lost answers 503, and the retry gets the receipt without a charge", async (world) => {
    const { key, body } = await newUpload(world);
    const cut = world.with({
      db: withCall(world.platform.db, "confirm_snapshot", async (confirm) => {
        await confirm();
        throw new ApiError("service_unavailable");
      }),
    });
    const lost = await cut.request("POST", "/snapshot", { token: key.token, body });
    assert.deepEqual([lost.status, lost.body.error], [503, "service_unavailable"]);
    await expectSuccess(world, key, body);
    await expectSound(world, key);
  });

  test("a database that is away when the failed upload is refunded leaves it to the lease", async (world) => {
    const { key, body } = await newUpload(world);
    const away = world.with({
      blobs: { put: () => Promise.reject(new Error("down")) },
      db: withCall(
        world.platform.db,
        "fail_attempt",
        () => Promise.reject(new ApiError("service_unavailable")),
      ),
    });
    const failed = await away.request("POST", "/snapshot", { token: key.token, body });
    assert.deepEqual([failed.status, failed.body.error], [503, "storage_unavailable"]);
    await endLeases(world, key);
    await sweepSnapshots(world.platform, 1000);
    assert.equal(await balanceOf(world, key.accountId), OPENING);
  });

  test("of two slow uploads with different hashes the first confirmed wins, the other gets 409 and its money", async (world) => {
    const { key, body } = await newUpload(world);
    let release = () => {};
    const held = new Promise<void>((resolve) => release = resolve);
    let reached = () => {};
    const uploading = new Promise<void>((resolve) => reached = resolve);
    const slow = world.with({
      blobs: {
        async put(name, bytes) {
          reached();
          await held;
          await world.platform.blobs.put(name, bytes);
        },
      },
    });
    const slowAnswer = slow.request("POST", "/snapshot", { token: key.token, body });
    await uploading;
    await expectSuccess(world, key, snapshotBody({}, randomBytes(1000)));
    release();
    const loser = await slowAnswer;
    assert.deepEqual([loser.status, loser.body.error], [409, "sequence_conflict"]);
    await expectSound(world, key);
  });

  test("an upload that the store answers twice is one snapshot", async (world) => {
    const { key, body } = await newUpload(world);
    const twice = world.with({
      blobs: {
        async put(name, bytes) {
          await world.platform.blobs.put(name, bytes);
          await world.platform.blobs.put(name, bytes);
        },
      },
    });
    assert.equal((await twice.request("POST", "/snapshot", { token: key.token, body })).status, 200);
    await expectSound(world, key);
  });
});

/** Stores that do not keep the blob, or do not say so. */
function brokenStores(): Record<string, (real: BlobStore) => Partial<BlobStore>> {
  return {
    "refuses": () => ({ put: () => Promise.reject(new Error("500")) }),
    "stores and then answers 500": (real) => ({
      put: async (name, bytes) => {
        await real.put(name, bytes);
        throw new Error("500");
      },
    }),
  };
}

async function newUpload(world: World, credits = OPENING) {
  return { key: await newPaidKey(world, credits), body: snapshotBody({}, randomBytes(1000)) };
}

/** Runs a request up to a point and abandons it there, as a killed process would. */
async function crash(
  world: World,
  key: PaidKey,
  body: unknown,
  point: "before the upload" | "during the upload" | "before the confirmation",
): Promise<void> {
  const real = world.platform.blobs;
  let reached = () => {};
  const there = new Promise<void>((resolve) => reached = resolve);
  const never = () => {
    reached();
    return new Promise<never>(() => {});
  };
  const dying = world.with({
    blobs: {
      async put(name, bytes) {
        if (point === "before the upload") await never();
        if (point === "during the upload") await real.put(name, bytes).then(never);
        await real.put(name, bytes);
      },
    },
    db: withCall(world.platform.db, "confirm_snapshot", never),
  });
  // Never settles: what it waits for does not come.
  void dying.request("POST", "/snapshot", { token: key.token, body });
  await there;
}

/** A database in which one function behaves otherwise. */
function withCall(
  db: Database,
  name: string,
  instead: (real: () => Promise<unknown>) => Promise<unknown>,
): Database {
  return {
    ...db,
    call: <T>(called: string, args: Parameters<Database["call"]>[1]) =>
      (called === name ? instead(() => db.call(called, args)) : db.call(called, args)) as Promise<T>,
  };
}

async function expectSuccess(world: World, key: PaidKey, body: unknown): Promise<Answer> {
  const answer = await world.request("POST", "/snapshot", { token: key.token, body });
  assert.equal(answer.status, 200, answer.text);
  return answer;
}

/** One confirmed snapshot, paid once; the ledger adds up. */
async function expectSound(world: World, key: PaidKey): Promise<void> {
  assert.equal(await balanceOf(world, key.accountId), OPENING - PRICE);
  const { rows } = await world.sql.query(
    `select (select count(*) from app.snapshots where account_id = $1 and status = 'confirmed') as confirmed,
            (select count(*) from app.snapshots where account_id = $1 and status = 'pending') as pending,
            (select sum(amount_milli) from app.credit_ledger where account_id = $1) as ledger,
            (select stored_bytes from app.accounts where id = $1) as stored`,
    [key.accountId],
  );
  assert.deepEqual(
    [rows[0].confirmed, rows[0].pending, rows[0].ledger, rows[0].stored].map(Number),
    [1, 0, OPENING - PRICE, 1000],
  );
}
