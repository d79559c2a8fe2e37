/** Who may call: every route with an API key against every wrong credential. Spec section 5, rules 1, 2 and 5. */

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { mintLiveKey } from "../../supabase/functions/_shared/domain/credential.ts";
import { eventually } from "../support/eventually.ts";
import {
  chunk,
  newPaidKey,
  newProjectToken,
  replicateBody,
  sha256Hex,
  snapshotBody,
} from "../support/factories.ts";
import { onEveryBackend, onOneBackend, type World } from "../support/harness.ts";

interface Route {
  method: string;
  path: string;
  body?: unknown;
}

const ROUTES: Route[] = [
  { method: "POST", path: "/snapshot", body: snapshotBody() },
  { method: "GET", path: "/snapshot/agent/latest" },
  { method: "GET", path: "/snapshot/agent/lineage" },
  { method: "GET", path: "/snapshot/agent/0" },
  { method: "POST", path: "/replicate", body: replicateBody(chunk(0)) },
  { method: "GET", path: "/head" },
  { method: "GET", path: "/replay?since=0" },
  { method: "GET", path: "/metadata" },
  { method: "GET", path: "/envelopes" },
];

const CONTRADICTION = replicateBody(chunk(0), chunk(0));

/** Requests that are wrong in themselves; a stranger must not learn how. */
const NONSENSE: Route[] = [
  { method: "POST", path: "/snapshot", body: "{" },
  { method: "POST", path: "/snapshot", body: {} },
  { method: "POST", path: "/snapshot", body: snapshotBody({ policy_hash: "x" }) },
  { method: "POST", path: "/snapshot", body: snapshotBody({}, new Uint8Array(262_145)) },
  { method: "POST", path: "/snapshot", body: snapshotBody({ sequence_number: 7 }) },
  { method: "POST", path: "/snapshot", body: "x".repeat(600_000) },
  { method: "GET", path: "/snapshot/agent/x" },
  { method: "GET", path: "/snapshot/a%00/latest" },
  { method: "GET", path: "/snapshot/agent/lineage?limit=x" },
  { method: "POST", path: "/replicate", body: "null" },
  { method: "POST", path: "/replicate", body: { chunks: [] } },
  { method: "POST", path: "/replicate", body: replicateBody(chunk(-1)) },
  { method: "POST", path: "/replicate", body: replicateBody(chunk(0, new Uint8Array(262_145))) },
  { method: "POST", path: "/replicate", body: replicateBody({ ...chunk(0), block_hash: sha256Hex("x") }) },
  { method: "POST", path: "/replicate", body: replicateBody(chunk(57)) },
  { method: "POST", path: "/replicate", body: CONTRADICTION },
  { method: "POST", path: "/replicate", body: "x".repeat(8 * 1024 * 1024 + 1) },
  { method: "GET", path: "/replay" },
  { method: "GET", path: "/replay?since=x" },
  { method: "GET", path: "/envelopes?limit=0" },
];

const UUID_V4 = "3f8e1c52-7a64-4b0d-9c21-5d6e7f8091a2";

/** Authorization headers that are wrong by their form. */
const MALFORMED: [string, string | undefined][] = [
  ["no header", undefined],
  ["an empty header", ""],
  ["Basic", "Basic x"],
  ["Basic with a good token", `Basic sov_proj_${UUID_V4}`],
  ["Bearer alone", "Bearer"],
  ["Bearer and blanks", "Bearer  "],
  ["no scheme", `sov_proj_${UUID_V4}`],
  ["no blank after the scheme", `Bearersov_proj_${UUID_V4}`],
  ["two tokens", `Bearer sov_proj_${UUID_V4} sov_proj_${UUID_V4}`],
  ["a random word", "Bearer hello"],
  ["something like a JWT", "Bearer eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl"],
  ["a project token in upper case", `Bearer sov_proj_${UUID_V4.toUpperCase()}`],
  ["a project token with a UUID v1", "Bearer sov_proj_3f8e1c52-7a64-1b0d-9c21-5d6e7f8091a2"],
  ["a project token of another variant", "Bearer sov_proj_3f8e1c52-7a64-4b0d-cc21-5d6e7f8091a2"],
  ["a project token with trailing text", `Bearer sov_proj_${UUID_V4}x`],
  ["a project token without UUID", "Bearer sov_proj_"],
  ["an unknown prefix", `Bearer sov_test_${UUID_V4}`],
  ["a live key with a dash", `Bearer sov_live_${UUID_V4}`],
];

/** Keys that look right; what each is refused with, and how a world gets one. */
const REFUSED: [string, string, (world: World) => Promise<string>][] = [
  ["a live key with a wrong checksum", "invalid_api_key", async () => withWrongChecksum(newLiveKey())],
  ["a live key that is too short", "invalid_api_key", async () => "sov_live_abc"],
  ["a live key that nobody has", "invalid_api_key", async () => newLiveKey()],
  ["a revoked key", "api_key_revoked", newRevokedKey],
  ["a key whose account was deleted", "owner_not_found", newOrphanedKey],
];

onEveryBackend((test) => {
  test("revocation works at the very next request, on every route", async (world) => {
    const { token, keyId } = await newPaidKey(world);
    await world.request("POST", "/snapshot", { token, body: snapshotBody() });
    for (const { method, path, body } of ROUTES.slice(4)) {
      assert.equal((await world.request(method, path, { token, body })).status, 200, path);
    }
    await world.sql.query("update app.api_keys set revoked_at = now() where id = $1", [keyId]);
    for (const { method, path, body } of ROUTES) {
      const answer = await world.request(method, path, { token, body });
      assert.deepEqual([answer.status, answer.body.error], [401, "api_key_revoked"], `${method} ${path}`);
    }
  });

  for (const [name, code, make] of REFUSED) {
    test(`${name} gets 401 ${code} for a write and for a read`, async (world) => {
      const token = await make(world);
      for (const { method, path, body } of [ROUTES[0]!, ROUTES[4]!, ROUTES[5]!]) {
        const answer = await world.request(method, path, { token, body });
        assert.deepEqual([answer.status, answer.body.error], [401, code], path);
        assert.equal(answer.headers.get("www-authenticate"), "Bearer");
      }
    });
  }

  test("a key's last use is kept to the minute, for writes at once and for reads soon", async (world) => {
    for (const { method, path, body } of [ROUTES[4]!, ROUTES[6]!]) {
      const { token, keyId } = await newPaidKey(world);
      const lastUse = async () => {
        const { rows } = await world.sql.query(
          "select last_used_at, last_used_at = date_trunc('minute', last_used_at) as whole from app.api_keys where id = $1",
          [keyId],
        );
        return rows[0].last_used_at === null ? undefined : rows[0];
      };
      assert.equal(await lastUse(), undefined);
      assert.equal((await world.request(method, path, { token, body })).status, 200);
      const used = method === "POST" ? await lastUse() : await eventually("the use is noted", lastUse);
      assert.equal(used.whole, true);
      assert.ok(Math.abs(used.last_used_at.getTime() - Date.now()) < 120_000);
    }
  });

  test("no token, hash, ciphertext or agent identifier gets into a log line", async (world) => {
    const agent = `agent-${crypto.randomUUID()}`;
    const secrets = [agent];
    const paid = await newPaidKey(world);
    for (
      const token of [paid.token, newProjectToken(), await newRevokedKey(world), newLiveKey(), `x${agent}`]
    ) {
      const [block, snapshot] = [chunk(0), snapshotBody({ agent_id: agent })];
      secrets.push(token, sha256Hex(token).slice(0, 12));
      for (const value of [block.ciphertext_b64, block.block_hash, snapshot.ciphertext_b64]) {
        secrets.push(String(value).slice(0, 16));
      }
      const wrong = snapshotBody({ agent_id: agent, sequence_number: 5 });
      for (const body of [snapshot, wrong, { ...snapshot, byte_size: 1 }]) {
        await world.request("POST", "/snapshot", { token, body });
      }
      for (const body of [replicateBody(block), replicateBody(chunk(0)), replicateBody(chunk(9))]) {
        await world.request("POST", "/replicate", { token, body });
      }
      for (const tail of ["latest", "lineage", "0", "x", "0/nowhere"]) {
        await world.request("GET", `/snapshot/${agent}/${tail}`, { token });
      }
    }
    const text = JSON.stringify(world.logs);
    assert.ok(world.logs.length >= 55);
    for (const secret of secrets) assert.ok(!text.includes(secret), `${secret} was logged`);
  });
});

onOneBackend((test) => {
  for (const [name, authorization] of MALFORMED) {
    test(`every route answers 401 missing_or_invalid_bearer_token to ${name}`, async (world) => {
      const headers: Record<string, string> = authorization === undefined ? {} : { authorization };
      await assertRefused(world, headers, "missing_or_invalid_bearer_token");
    });
  }

  for (const [name, code, make] of REFUSED) {
    test(`every route answers 401 ${code} to ${name}`, async (world) => {
      await assertRefused(world, { authorization: `Bearer ${await make(world)}` }, code);
    });

    for (const { method, path, body } of NONSENSE) {
      const shown = body === undefined ? "" : ` with ${JSON.stringify(body).slice(0, 20)}…`;
      const kind = body === CONTRADICTION ? " that contradicts itself" : "";
      test(`${method} ${path}${shown}${kind} answers 401 ${code} to ${name}`, async (world) => {
        const answer = await world.request(method, path, { token: await make(world), body });
        assert.deepEqual([answer.status, answer.body.error], [401, code]);
      });
    }
  }

  test("the scheme may be written in any case, and blanks around the token do not matter", async (world) => {
    for (const scheme of ["Bearer", "bearer", "BEARER"]) {
      for (const authorization of [`${scheme} ${newProjectToken()}`, `${scheme}   ${newProjectToken()}  `]) {
        const answer = await world.request("GET", "/metadata", { headers: { authorization } });
        assert.equal(answer.status, 200, authorization);
      }
    }
  });
});

async function assertRefused(world: World, headers: Record<string, string>, code: string): Promise<void> {
  for (const { method, path, body } of ROUTES) {
    const answer = await world.request(method, path, { headers, body });
    assert.deepEqual([answer.status, answer.body.error], [401, code], `${method} ${path}`);
    assert.equal(answer.headers.get("www-authenticate"), "Bearer");
    assert.deepEqual(Object.keys(answer.body).sort(), ["error", "request_id"]);
  }
}

function newLiveKey(): string {
  return mintLiveKey((count) => randomBytes(count));
}

function withWrongChecksum(key: string): string {
  return key.slice(0, -1) + (key.endsWith("0") ? "1" : "0");
}

async function newRevokedKey(world: World): Promise<string> {
  const { token, keyId } = await newPaidKey(world);
  await world.sql.query("update app.api_keys set revoked_at = now() where id = $1", [keyId]);
  return token;
}

async function newOrphanedKey(world: World): Promise<string> {
  const { token, accountId } = await newPaidKey(world);
  await world.sql.query("delete from app.owners where id = $1", [accountId]);
  return token;
}
