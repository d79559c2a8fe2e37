/**
 * The main job over HTTP on the oldest runtime we support. `tests/floor.ts` runs this file on Deno 2.1 with
 * FLOOR_DATABASE_URL, the address of an empty migrated database; the blobs are in memory.
 */

import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { readSettings } from "../../supabase/functions/_shared/env.ts";
import { openDirectDatabase } from "../../supabase/functions/_shared/platform/database_direct.ts";
import type { BlobStore, LogRecord } from "../../supabase/functions/_shared/platform/mod.ts";
import { openNameService } from "../../supabase/functions/_shared/platform/name_service.ts";
import { openPolar } from "../../supabase/functions/_shared/platform/payments_polar.ts";
import { openProviders } from "../../supabase/functions/_shared/platform/providers_supabase.ts";
import { openWebhookSender } from "../../supabase/functions/_shared/platform/webhook_sender.ts";
import { createSessionVerifier } from "../../supabase/functions/_shared/platform/session_verifier.ts";
import { createApp } from "../../supabase/functions/v2-agent-state/app.ts";

const TOKEN = "sov_proj_3f0c8a1e-5b7d-4c2a-9e6f-0123456789ab";
const ZEROES = "0".repeat(64);
const PREFIX = "/functions/v1/v2-agent-state";

const logged: LogRecord[] = [];
const blobs = new Map<string, Uint8Array>();
const store: BlobStore = {
  put: (name, bytes) => Promise.resolve(void blobs.set(name, bytes.slice())),
  publicUrl: (name) => `memory:${name}`,
  remove: (names) => Promise.resolve(names.forEach((name) => blobs.delete(name))),
  ping: () => Promise.resolve(),
};

const settings = readSettings({ SERVER_TIMING: "true" });
const log = (record: LogRecord) => void logged.push(record);
const database = openDirectDatabase({
  url: Deno.env.get("FLOOR_DATABASE_URL")!,
  poolSize: 2,
  prepared: true,
  role: "service_role",
  log,
});
const later: Promise<void>[] = [];
const app = createApp(
  {
    db: database.db,
    blobs: store,
    sessions: createSessionVerifier(undefined),
    ...openPolar(settings.polar, log),
    mailer: { send: () => Promise.resolve() },
    hooks: openWebhookSender({ allowPrivate: false }),
    providers: openProviders(settings, { allowPrivate: false }, log),
    names: openNameService(),
    now: () => new Date(),
    log,
    background: (work) => void later.push(work),
  },
  settings,
);
const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, app.fetch);
const base = `http://127.0.0.1:${(server.addr as Deno.NetAddr).port}${PREFIX}`;

interface Answer {
  status: number;
  headers: Headers;
  // deno-lint-ignore no-explicit-any
  body: any;
}

async function send(method: string, path: string, body?: unknown, token = TOKEN): Promise<Answer> {
  const response = await fetch(base + path, {
    method,
    headers: {
      authorization: `Bearer ${token}`,
      "content-type": "application/json",
      "x-device-id": "laptop",
    },
    body: body === undefined ? undefined : typeof body === "string" ? body : JSON.stringify(body),
  });
  return { status: response.status, headers: response.headers, body: await response.json() };
}

async function expectRefusal(status: number, error: string, answer: Promise<Answer>): Promise<Answer> {
  const got = await answer;
  assert.deepEqual([got.status, got.body.error], [status, error]);
  assert.equal(got.body.request_id, got.headers.get("x-request-id"));
  return got;
}

function hex(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

function block(size: number): Uint8Array {
  return new Uint8Array(randomBytes(size));
}

function base64(bytes: Uint8Array): string {
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
}

function chunk(sequence: number, bytes: Uint8Array) {
  return { sequence_number: sequence, block_hash: hex(bytes), ciphertext_b64: base64(bytes) };
}

async function checkSnapshots(): Promise<void> {
  const bytes = block(3_000);
  const first = {
    agent_id: "a/../é 1",
    sequence_number: 0,
    parent_snapshot: null,
    policy_hash: ZEROES,
    client_payload_hash: hex(bytes),
    ciphertext_b64: base64(bytes),
    byte_size: bytes.length,
    timestamp: "2026-01-01T00:00:00.000Z",
  };
  const stored = await send("POST", "/v2/snapshot", first);
  assert.equal(stored.status, 200);
  assert.equal(stored.body.status, "confirmed");
  assert.equal(stored.body.storage_path, `a/../é 1/seq-0-${first.client_payload_hash.slice(0, 12)}.bin`);
  assert.deepEqual(
    (await send("POST", "/snapshot", first)).body,
    stored.body,
    "a retry gets the same receipt",
  );

  const agent = encodeURIComponent(first.agent_id);
  const restored = await send("GET", `/snapshot/${agent}/latest`);
  assert.deepEqual(restored.body.receipt, stored.body);
  const kept = blobs.get(restored.body.ciphertextUrl.slice("memory:".length))!;
  assert.equal(hex(kept), first.client_payload_hash);
  assert.equal((await send("GET", `/snapshot/${agent}/0`)).status, 200);
  assert.equal((await send("GET", `/snapshot/${agent}/lineage`)).body.length, 1);
  await expectRefusal(404, "snapshot_not_found", send("GET", `/snapshot/${agent}/1`));
  await expectRefusal(
    409,
    "sequence_gap",
    send("POST", "/snapshot", { ...first, sequence_number: 2, parent_snapshot: "x" }),
  );
  await expectRefusal(
    409,
    "sequence_conflict",
    send("POST", "/snapshot", { ...first, client_payload_hash: ZEROES }),
  );
}

async function checkReplication(): Promise<void> {
  await expectRefusal(404, "no_replication_entries", send("GET", "/head"));
  const sizes = [1, 12, 13, 4_096, 262_144];
  const blocks = sizes.map(block);
  const body = { chunks: blocks.map((bytes, i) => chunk(i, bytes)), merkle_root: hex(block(1)) };
  const accepted = { accepted: 5, sequence_number: 4, merkle_root: body.merkle_root };
  assert.deepEqual((await send("POST", "/replicate", body)).body, accepted);
  assert.deepEqual((await send("POST", "/replicate", body)).body, { idempotent: true });
  assert.equal((await send("GET", "/head")).body.sequence_number, 4);

  const replayed = await send("GET", "/replay?since=0");
  assert.equal(replayed.body.count, 5);
  for (const [i, sent] of body.chunks.entries()) {
    const { merkle_root, created_at, ...got } = replayed.body.chunks[i];
    assert.deepEqual(got, sent);
    assert.equal(merkle_root, body.merkle_root);
    assert.match(created_at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  }

  const page = await send("GET", "/envelopes?limit=2&since=1");
  assert.deepEqual([page.headers.get("x-result-count"), page.headers.get("x-next-cursor")], ["2", "3"]);
  const whole = page.body.map((each: { iv: string; ciphertext: string }) =>
    atob(each.iv) + atob(each.ciphertext)
  );
  assert.deepEqual(whole.map(btoa), blocks.slice(2, 4).map(base64));
  assert.equal((await send("GET", "/metadata")).body.totalBytes, sizes.reduce((sum, size) => sum + size));

  const other = chunk(4, block(9));
  const split = await expectRefusal(
    409,
    "split_brain_detected",
    send("POST", "/replicate", { ...body, chunks: [other] }),
  );
  assert.equal(split.body.conflicts[0].attempted_block_hash, other.block_hash);
  const gap = { ...body, chunks: [chunk(6, block(9))] };
  await expectRefusal(409, "sequence_gap", send("POST", "/replicate", gap));
}

async function checkRefusals(): Promise<void> {
  const replicate = (each: object) =>
    send("POST", "/replicate", { chunks: [{ ...chunk(5, block(20)), ...each }], merkle_root: ZEROES });
  await expectRefusal(401, "missing_or_invalid_bearer_token", send("GET", "/head", undefined, "nobody"));
  await expectRefusal(401, "invalid_api_key", send("GET", "/head", undefined, `sov_live_${"a".repeat(49)}`));
  await expectRefusal(404, "route_not_found", send("GET", "/nowhere"));
  await expectRefusal(404, "no_snapshots_for_agent", send("GET", "/snapshot/nobody/latest"));
  await expectRefusal(400, "missing_since_param", send("GET", "/replay"));
  await expectRefusal(400, "invalid_json", send("POST", "/replicate", "{"));
  await expectRefusal(
    400,
    "missing_field:merkle_root",
    send("POST", "/replicate", { chunks: [chunk(5, block(9))] }),
  );
  await expectRefusal(400, "block_hash_mismatch", replicate({ block_hash: ZEROES }));
  await expectRefusal(413, "chunk_too_large", replicate(chunk(5, block(262_145))));
  for (
    const ciphertext_b64 of [
      "YR==",
      "YQ",
      "YQ=",
      "Y",
      "YQ==\n",
      "\nYQ==",
      "YWFhY",
      "\nAAAAA==",
      "Y Q==",
      "-_8=",
      "AAA\nAAAA",
      "é",
      "=",
    ]
  ) {
    const refused = replicate({ ciphertext_b64, block_hash: hex(new TextEncoder().encode("a")) });
    await expectRefusal(400, "invalid_field:ciphertext_b64", refused);
  }
}

try {
  assert.deepEqual((await send("GET", "/health")).body, { status: "ok" });
  await checkSnapshots();
  await checkReplication();
  await checkRefusals();
  await Promise.all(later);
  const unexpected = logged.filter(({ level, event }) => level === "error" || event === "reads_not_counted");
  assert.deepEqual(unexpected, [], "nothing failed behind an answer");
  assert.ok(later.length > 0, "reads were counted");
} finally {
  await server.shutdown();
  await database.close();
}
