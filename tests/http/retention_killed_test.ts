/** A purge that is killed, at any point: nothing that is needed is gone, and the next one finishes what it began. */

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { retentionDays } from "../../supabase/functions/_shared/domain/retention.ts";
import { purge } from "../../supabase/functions/v2-agent-state/flows/purge.ts";
import { openBlobFiles, serveBlob } from "../../local/blob_files.ts";
import { newProjectToken, snapshotBody } from "../support/factories.ts";
import { onOneBackend, type World } from "../support/harness.ts";
import { endLeases } from "../support/jobs.ts";

const CHILD = new URL("../support/purge_child.ts", import.meta.url).pathname;
const ABANDONED = 150;
const KEPT = 5;
const OLD_ROWS = 1_200;

/** Where it is killed, at the how manieth time, and how many objects may be left of 150, in batches of 100. */
const POINTS: [point: string, nth: number, left: [least: number, most: number]][] = [
  ["after settle_snapshots", 1, [150, 150]],
  ["amid objects", 1, [100, 100]],
  ["after objects", 1, [50, 50]],
  ["after forget_attempts", 1, [50, 50]],
  ["amid objects", 2, [25, 25]],
  ["after purge_expired", 1, [0, 0]],
  ["after purge_expired", 12, [0, 0]],
];

onOneBackend((test) => {
  for (const [point, nth, [least, most]] of POINTS) {
    test(`killed ${point}, the ${nth}. time: the next purge finishes, and what is confirmed is there`, async (world) => {
      const directory = await Deno.makeTempDir();
      try {
        await killOne(world, directory, point, nth, [least, most]);
      } finally {
        await Deno.remove(directory, { recursive: true });
      }
    });
  }
});

async function killOne(
  world: World,
  root: string,
  point: string,
  nth: number,
  [least, most]: [number, number],
) {
  const blobs = await openBlobFiles(root, () => "http://blobs.test");
  const names: string[] = [];
  const token = newProjectToken();
  const service = world.with({ blobs });
  for (let sequence_number = 0; sequence_number < KEPT; sequence_number++) {
    const body = snapshotBody({ sequence_number });
    assert.equal((await service.request("POST", "/snapshot", { token, body })).status, 200);
  }
  await abandon(world, token, blobs, names);
  await endLeases(world);
  await world.sql.query(
    `insert into app.rate_limits (bucket, window_start)
     select sha256(($1 || i)::bytea), now() - interval '3 days' from generate_series(1, $2) i`,
    [randomBytes(8).toString("hex"), OLD_ROWS],
  );

  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-check", CHILD, world.databaseUrl, root, point, String(nth)],
    stdin: "null",
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
  const said = await child.stdout.pipeThrough(new TextDecoderStream()).getReader().read();
  assert.equal(said.value, "here\n", "it came to the point");
  child.kill("SIGKILL");
  await child.status;

  const left = await countObjects(root, names);
  assert.ok(left >= least && left <= most, `${left} objects are left`);
  await assertConfirmedAreThere(world, root);
  const { platform } = world.with({ blobs });
  const reports = await Promise.all([1, 2].map(() => purge(platform, retentionDays({}))));
  assert.ok(reports.every(({ complete }) => complete));
  assert.equal(await countObjects(root, names), 0);
  await assertConfirmedAreThere(world, root);
  const { rows: [{ attempts, counters }] } = await world.sql.query(`
    select (select count(*) from app.snapshot_attempts where status <> 'confirmed') as attempts,
           (select count(*) from app.rate_limits where window_start < now() - interval '2 days') as counters`);
  assert.deepEqual([Number(attempts), Number(counters)], [0, 0]);
  assert.equal(
    (await service.request("GET", "/snapshot/agent/latest", { token })).body.receipt.sequence_number,
    KEPT - 1,
  );
}

/** Uploads whose workers died once the blob was stored. */
async function abandon(
  world: World,
  token: string,
  blobs: Awaited<ReturnType<typeof openBlobFiles>>,
  names: string[],
): Promise<void> {
  const { promise: all, resolve } = Promise.withResolvers<void>();
  const dying = world.with({
    blobs: {
      async put(name, bytes) {
        await blobs.put(name, bytes);
        if (names.push(name) === ABANDONED) resolve();
        await new Promise(() => {});
      },
    },
  });
  for (let i = 0; i < ABANDONED; i++) {
    void dying.request("POST", "/snapshot", { token, body: snapshotBody({ agent_id: `dead-${i}` }) });
  }
  await all;
}

async function countObjects(root: string, names: readonly string[]): Promise<number> {
  const statuses = await Promise.all(names.map((name) => statusOf(root, name)));
  return statuses.filter((status) => status === 200).length;
}

async function assertConfirmedAreThere(world: World, root: string): Promise<void> {
  const { rows } = await world.sql.query(`
    select s.object_name from app.snapshots s join app.agents a on a.id = s.agent_ref
     where s.status = 'confirmed'
       and a.created_at = (select max(created_at) from app.agents where agent_id = 'agent')`);
  assert.equal(rows.length, KEPT);
  for (const { object_name } of rows) assert.equal(await statusOf(root, object_name), 200, object_name);
}

async function statusOf(root: string, name: string): Promise<number> {
  const response = await serveBlob(
    new Request(`http://blobs.test/storage/v1/object/public/agent-state/${name}`),
    root,
  );
  await response.body?.cancel();
  return response.status;
}
