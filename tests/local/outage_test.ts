/** Postgres dies under load: nothing acknowledged is lost, nobody sees a 500, and service is back within seconds. */

import assert from "node:assert/strict";
import { postmasterOf, startService, until, withDataDir } from "../support/service.ts";
import { chunk, newProjectToken, replicateBody, snapshotBody } from "../support/factories.ts";

const WRITERS = 6;
/** Serving again, from the kill to the first success. */
const RECOVERY_MS_MAX = 5_000;

interface Acknowledged {
  token: string;
  hashes: string[];
  snapshots: string[];
}

Deno.test("a Postgres that is killed under load loses nothing, answers only 200 or 503, and is back in 5 s", async () => {
  await withDataDir(async (dataDir) => {
    const service = startService(dataDir);
    const { url } = await service.ready();
    const base = `${url}/functions/v1/v2-agent-state`;
    const statuses = new Map<number, number>();
    let running = true;
    let lastSuccess = 0;

    async function post(token: string, path: string, body: unknown): Promise<number> {
      const response = await fetch(base + path, {
        method: "POST",
        headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
        body: JSON.stringify(body),
      });
      await response.body?.cancel();
      statuses.set(response.status, (statuses.get(response.status) ?? 0) + 1);
      if (response.status === 200) lastSuccess = performance.now();
      return response.status;
    }

    /** Appends and checkpoints one after the other, and repeats what was not acknowledged, as a client does. */
    async function write(): Promise<Acknowledged> {
      const done: Acknowledged = { token: newProjectToken(), hashes: [], snapshots: [] };
      while (running) {
        const block = chunk(done.hashes.length);
        while (running && await post(done.token, "/replicate", replicateBody(block)) !== 200);
        if (running) done.hashes.push(block.block_hash as string);
        const snapshot = snapshotBody({ sequence_number: done.snapshots.length });
        while (running && await post(done.token, "/snapshot", snapshot) !== 200);
        if (running) done.snapshots.push(snapshot.client_payload_hash as string);
      }
      return done;
    }

    const writers = Array.from({ length: WRITERS }, write);
    await until("the writers are under way", async () => lastSuccess > 0 || undefined);
    for (let kill = 0; kill < 2; kill++) {
      const killedAt = performance.now();
      Deno.kill(await postmasterOf(dataDir), "SIGKILL");
      await until("something was refused", async () => statuses.has(503) || undefined);
      await until(
        "it serves again",
        async () => lastSuccess > killedAt + 100 || undefined,
        RECOVERY_MS_MAX / 1000,
      );
    }
    running = false;
    const acknowledged = await Promise.all(writers);

    assert.deepEqual([...statuses.keys()].sort(), [200, 503], JSON.stringify([...statuses]));
    for (const { token, hashes, snapshots } of acknowledged) {
      const headers = { authorization: `Bearer ${token}` };
      const { chunks } = await (await fetch(`${base}/replay?since=-1`, { headers })).json();
      const stored = chunks.map((each: { block_hash: string }) => each.block_hash);
      assert.deepEqual(stored.slice(0, hashes.length), hashes);
      const lineage = await (await fetch(`${base}/snapshot/agent/lineage?limit=500`, { headers })).json();
      const kept = lineage.map((each: { client_payload_hash: string }) => each.client_payload_hash).reverse();
      assert.deepEqual(kept.slice(0, snapshots.length), snapshots);
    }
    service.kill("SIGTERM");
    assert.equal(await service.exit, 0);
  });
});
