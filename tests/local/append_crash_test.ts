/** The service and its Postgres are killed while many agents append: what was acknowledged is there, and paid once. */

import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
// @deno-types="npm:@types/pg@8.23.1"
import pg from "pg";
import { maskKey, mintLiveKey } from "../../supabase/functions/_shared/domain/credential.ts";
import { chunk, newProjectToken, replicateBody } from "../support/factories.ts";
import { assertInvariants } from "../support/invariants.ts";
import { postmasterOf, startService, until, withDataDir } from "../support/service.ts";

const ACKNOWLEDGED_MIN = 300;

Deno.test("a kill in the middle of shared appends loses nothing acknowledged and charges nothing unwritten", async () => {
  await withDataDir(async (dataDir) => {
    const service = startService(dataDir);
    const { url, databaseUrl } = await service.ready();
    const tokens = [...await newPaidKeys(databaseUrl, 8), ...Array.from({ length: 8 }, newProjectToken)];
    const acknowledged = new Map<string, string[]>(tokens.map((token) => [token, []]));
    const appending = tokens.map((token) => appendUntilRefused(url, token, acknowledged.get(token)!));
    const count = () => [...acknowledged.values()].reduce((sum, hashes) => sum + hashes.length, 0);
    await until(
      "enough is acknowledged",
      () => Promise.resolve(count() >= ACKNOWLEDGED_MIN || undefined),
      60,
    );
    Deno.kill(await postmasterOf(dataDir), "SIGKILL");
    service.kill("SIGKILL");
    await Promise.all([...appending, service.exit]);

    const again = startService(dataDir);
    const stack = await again.ready();
    for (const [token, hashes] of acknowledged) {
      const stored = await readHashes(stack.url, token);
      assert.deepEqual(stored.slice(0, hashes.length), hashes);
      // At most the one that was under way.
      assert.ok(stored.length <= hashes.length + 1);
    }
    await withClient(stack.databaseUrl, assertInvariants);
    again.kill("SIGTERM");
    await again.exit;
  });
});

async function appendUntilRefused(url: string, token: string, acknowledged: string[]): Promise<void> {
  for (let sequence = 0;; sequence++) {
    const next = chunk(sequence, randomBytes(2_000));
    const response = await fetch(`${url}/functions/v1/v2-agent-state/replicate`, {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      body: JSON.stringify(replicateBody(next)),
    }).catch(() => undefined);
    const text = await response?.text().catch(() => undefined);
    if (response?.status !== 200 || text === undefined) return;
    acknowledged.push(String(next.block_hash));
  }
}

async function readHashes(url: string, token: string): Promise<string[]> {
  const response = await fetch(`${url}/functions/v1/v2-agent-state/replay?since=-1`, {
    headers: { authorization: `Bearer ${token}` },
  });
  const { chunks } = await response.json() as { chunks: { block_hash: string }[] };
  return chunks.map(({ block_hash }) => block_hash);
}

async function newPaidKeys(databaseUrl: string, count: number): Promise<string[]> {
  const tokens = Array.from({ length: count }, () => mintLiveKey((bytes) => randomBytes(bytes)));
  await withClient(databaseUrl, async (client) => {
    for (const token of tokens) {
      await client.query(
        `insert into app.api_keys (account_id, name, key_hash, masked_key)
         values ((api.grant_credits($1, 1000000000, 'test', '', gen_random_uuid()) ->> 'account_id')::uuid, 'test', $2, $3)`,
        [`user-${crypto.randomUUID()}`, createHash("sha256").update(token).digest(), maskKey(token)],
      );
    }
  });
  return tokens;
}

async function withClient(databaseUrl: string, work: (client: pg.Client) => Promise<void>): Promise<void> {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    await work(client);
  } finally {
    await client.end();
  }
}
