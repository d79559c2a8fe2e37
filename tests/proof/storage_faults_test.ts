/**
 * Object storage that fails in every way: nobody is told that a snapshot is kept which is not, money comes back, the
 * same request again works, and nothing stays in the bucket that no snapshot refers to.
 */

import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { randomBytes } from "node:crypto";
import { createClient } from "@supabase/supabase-js";
import { openBlobStorage } from "../../supabase/functions/_shared/platform/blob_storage.ts";
import { sweepSnapshots } from "../../supabase/functions/v2-agent-state/flows/sweep_snapshots.ts";
import { balanceOf, endLeases, newPaidKey, snapshotBody } from "../support/factories.ts";
import { onOneBackend, type World } from "../support/harness.ts";
import { assertInvariants } from "../support/invariants.ts";
import { openClaim } from "../support/claims.ts";
import {
  startStorageServer,
  type StorageFailure,
  type StorageRequest,
  type StorageServer,
} from "../support/storage_server.ts";

const BYTES = 1000;
const PRICE = 45;
const OPENING = 1000;
/** The live platform waits 20 s for storage; nothing else differs. */
const TIMEOUT_MS = 250;

const FAILURES: Record<string, StorageFailure> = {
  ...Object.fromEntries(
    [400, 403, 404, 413, 429, 500, 502, 503, 507].map((
      status,
    ) => [`answers ${status}`, { kind: "status", status } as const]),
  ),
  "breaks off": { kind: "cut" },
  "does it and breaks off": { kind: "cut after" },
  "does it and answers 500": { kind: "status after", status: 500 },
  "does it and answers 403": { kind: "status after", status: 403 },
  "keeps half of it": { kind: "truncate" },
  "never answers": { kind: "stall" },
  "does it and never answers": { kind: "stall after" },
  "says yes and does nothing": { kind: "lie" },
};
const REQUESTS: StorageRequest[] = ["upload", "info"];
const TIMES = [1, 2, Infinity];

function openStorage(world: World, storage: StorageServer) {
  const client = createClient(storage.url, "sb_secret_for_tests", {
    auth: { persistSession: false, autoRefreshToken: false },
    global: {
      fetch: (input, init) => fetch(input, { ...init, signal: AbortSignal.timeout(TIMEOUT_MS) }),
    },
  });
  return world.with({ blobs: openBlobStorage(client) });
}

const held = openClaim("A snapshot is acknowledged only when all of it is kept");

onOneBackend((test) => {
  for (const request of REQUESTS) {
    for (const [name, failure] of Object.entries(FAILURES)) {
      for (const times of TIMES) {
        const often = times === Infinity ? "always" : `${times} times`;
        test(`storage that ${often} ${name} at ${request} loses no snapshot and no money`, async (world) => {
          await using storage = await startStorageServer();
          const service = openStorage(world, storage);
          const key = await newPaidKey(world, OPENING);
          const agent = `agent-${crypto.randomUUID()}`;
          const bytes = randomBytes(BYTES);
          const body = snapshotBody({ agent_id: agent }, bytes);
          const post = () => service.request("POST", "/snapshot", { token: key.token, body });

          const fault = storage.inject({ request, failure, times });
          const first = await post();
          assert.ok(fault.hits > 0);
          fault.lift();
          if (first.status !== 200) {
            assert.deepEqual([first.status, first.body.error], [503, "storage_unavailable"], first.text);
            assert.equal(await balanceOf(world, key.accountId), OPENING, "refunded");
          }
          const second = await post();
          assert.equal(second.status, 200, second.text);
          if (first.status === 200) assert.deepEqual(second.body, first.body);
          assert.equal(await balanceOf(world, key.accountId), OPENING - PRICE, "charged once");

          const latest = await service.request("GET", `/snapshot/${agent}/latest`, { token: key.token });
          const stored = new Uint8Array(await (await fetch(latest.body.ciphertextUrl)).arrayBuffer());
          assert.ok(Buffer.from(stored).equals(bytes), "what is served is what was sent");

          await endLeases(world, key);
          await sweepSnapshots(service.platform, 1000);
          assert.equal(storage.objects.size, 1, "what nobody refers to is removed");
        });
      }
    }
  }

  test("what storage will not remove now is removed by a later sweep", async (world) => {
    await using storage = await startStorageServer();
    const service = openStorage(world, storage);
    const key = await newPaidKey(world, OPENING);
    const stored = storage.inject({ request: "upload", failure: { kind: "status after", status: 403 } });
    const kept = storage.inject({ request: "remove", failure: { kind: "status", status: 500 } });
    const failed = await service.request("POST", "/snapshot", { token: key.token, body: snapshotBody() });
    assert.equal(failed.status, 503);
    await endLeases(world, key);
    await assert.rejects(sweepSnapshots(service.platform, 1000));
    assert.equal(storage.objects.size, 1);
    stored.lift();
    kept.lift();
    await sweepSnapshots(service.platform, 1000);
    assert.equal(storage.objects.size, 0);
  });

  test("the books are right after every failure of storage", async (world) => {
    await assertInvariants(world.sql);
    held(REQUESTS.length * TIMES.length * Object.keys(FAILURES).length);
  });
});
