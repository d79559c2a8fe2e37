/** Scheduled jobs: who may start them, and what one run leaves. */

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { CRON_SECRET } from "../everything.ts";
import { balanceOf, newPaidKey, snapshotBody } from "../factories.ts";
import type { World } from "../harness.ts";
import { makeDue } from "../mail.ts";
import { accountIdOf, newPerson } from "../people.ts";
import { counter } from "./counting.ts";
import type { Operation, Prepared } from "./mod.ts";

const OPENING = 10_000;

function job(
  path: string,
  name: string,
  prepare: (world: World) => Promise<Omit<Prepared, "path" | "options">>,
): Operation {
  return {
    route: `POST ${path}`,
    name,
    opens: "cron secret",
    status: 200,
    effect: "once",
    job: true,
    prepare: async (world) => ({ path, options: { token: CRON_SECRET }, ...await prepare(world) }),
  };
}

/** An upload that died with its object written: its price is held, its object nobody's, its lease just over. */
async function abandonUpload(world: World) {
  const key = await newPaidKey(world, OPENING);
  const { promise, resolve } = Promise.withResolvers<void>();
  const put = async (name: string, bytes: Uint8Array<ArrayBuffer>): Promise<void> => {
    await world.platform.blobs.put(name, bytes);
    resolve();
    return await new Promise(() => {});
  };
  const body = snapshotBody({ agent_id: `agent-${crypto.randomUUID()}` });
  void world.with({ blobs: { put } }).request("POST", "/snapshot", { token: key.token, body });
  await promise;
  await lapse(world, key.accountId, "1 second");
  return key;
}

async function lapse(world: World, accountId: string, ago: string): Promise<void> {
  await world.sql.query(
    `update app.snapshot_attempts set lease_expires_at = now() - $2::interval
      where snapshot_id in (select id from app.snapshots where account_id = $1)`,
    [accountId, ago],
  );
}

/** Nobody else is owed a mail, and none waits: one run would not be enough for all whom the tests have made. */
async function settleMails(world: World): Promise<void> {
  await world.sql.query("select api.owe_lifecycle_mails(100000)");
  await world.sql.query("update app.mail_outbox set given_up_at = now() where sent_at is null");
}

export const JOB_OPERATIONS: Operation[] = [
  job("/retention/purge", "purge what has been kept long enough", async (world) => {
    const bucket = randomBytes(32);
    await world.sql.query(
      "insert into app.rate_limits (bucket, window_start) values ($1, now() - interval '3 days')",
      [bucket],
    );
    return {
      canaries: [bucket.toString("hex")],
      owned: [bucket.toString("hex")],
      count: counter(world, "select (count(*) = 0)::int as n from app.rate_limits where bucket = $1", [
        bucket,
      ]),
    };
  }),
  job("/retention/purge", "give back what an upload that died has cost", async (world) => {
    const { accountId } = await abandonUpload(world);
    return {
      canaries: [accountId],
      owned: [accountId],
      count: counter(
        world,
        "select count(*) as n from app.snapshots where account_id = $1 and status = 'failed'",
        [accountId],
      ),
      check: async () => assert.equal(await balanceOf(world, accountId), OPENING, "given back once"),
    };
  }),
  job("/retention/purge", "remove what an upload that died has left", async (world) => {
    const { accountId } = await abandonUpload(world);
    await world.sql.query("select api.settle_snapshots(1000)");
    await lapse(world, accountId, "2 days");
    return {
      canaries: [accountId],
      owned: [accountId],
      count: counter(
        world,
        `select count(*) as n from app.snapshots s where s.account_id = $1
            and not exists (select from app.snapshot_attempts a where a.snapshot_id = s.id)`,
        [accountId],
      ),
      check: async () => assert.equal(await balanceOf(world, accountId), OPENING, "given back once"),
    };
  }),
  job("/lifecycle/dispatch", "write to those whose time it is", async (world) => {
    await settleMails(world);
    const person = await newPerson(world);
    const accountId = await accountIdOf(world, person);
    return {
      canaries: [accountId, person.email],
      owned: [accountId],
      count: counter(
        world,
        "select count(*) as n from app.mail_outbox where recipient = $1 and sent_at is not null",
        [person.email],
      ),
      lapse: () => makeDue(world),
    };
  }),
];
