/** POST /replicate and GET /replay refuse bad input with the right code and leave no trace. Spec 4.2, 7. */

import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { randomBytes } from "node:crypto";
import {
  chunk,
  newPaidKey,
  newProjectToken,
  replicateBody,
  sha256Hex,
  ZERO_HASH,
} from "../support/factories.ts";
import { onOneBackend, type World } from "../support/harness.ts";

const BODY_BYTES_MAX = 8 * 1024 * 1024;

/** Field of the request, wrong value, expected status and code; the rest of the request is good. */
const WRONG: [string, unknown, number, string][] = [
  ["chunks", undefined, 400, "missing_field:chunks"],
  ["chunks", null, 400, "invalid_field:chunks"],
  ["chunks", [], 400, "invalid_field:chunks"],
  ["chunks", {}, 400, "invalid_field:chunks"],
  ["chunks", "0", 400, "invalid_field:chunks"],
  ["chunks", 1e308, 400, "invalid_field:chunks"],
  ["chunks", Array.from({ length: 1001 }, (_, i) => chunk(i, "x")), 400, "invalid_field:chunks"],
  ["merkle_root", undefined, 400, "missing_field:merkle_root"],
  ["merkle_root", null, 400, "invalid_field:merkle_root"],
  ["merkle_root", [ZERO_HASH], 400, "invalid_field:merkle_root"],
  ["merkle_root", "0", 400, "invalid_field:merkle_root"],
  ["merkle_root", "", 400, "invalid_field:merkle_root"],
  ["merkle_root", 1e308, 400, "invalid_field:merkle_root"],
  ["merkle_root", "0".repeat(63), 400, "invalid_field:merkle_root"],
  ["merkle_root", "0".repeat(65), 400, "invalid_field:merkle_root"],
  ["merkle_root", "g".repeat(64), 400, "invalid_field:merkle_root"],
  ["merkle_root", `${ZERO_HASH}\n`, 400, "invalid_field:merkle_root"],
];

/** The same for a field of the second of two chunks: the answer also has `index` 1. */
const WRONG_IN_CHUNK: [string, unknown, number, string][] = [
  ["sequence_number", undefined, 400, "missing_field:sequence_number"],
  ["sequence_number", null, 400, "bad_sequence"],
  ["sequence_number", -1, 400, "bad_sequence"],
  ["sequence_number", 1.5, 400, "bad_sequence"],
  ["sequence_number", "0", 400, "bad_sequence"],
  ["sequence_number", [1], 400, "bad_sequence"],
  ["sequence_number", true, 400, "bad_sequence"],
  ["sequence_number", 1e308, 400, "bad_sequence"],
  ["sequence_number", 9007199254740992, 400, "bad_sequence"],
  ["block_hash", undefined, 400, "missing_field:block_hash"],
  ["block_hash", null, 400, "invalid_field:block_hash"],
  ["block_hash", 0, 400, "invalid_field:block_hash"],
  ["block_hash", [ZERO_HASH], 400, "invalid_field:block_hash"],
  ["block_hash", "0".repeat(63), 400, "invalid_field:block_hash"],
  ["block_hash", "0".repeat(66), 400, "invalid_field:block_hash"],
  ["block_hash", "z".repeat(64), 400, "invalid_field:block_hash"],
  ["block_hash", ZERO_HASH, 400, "block_hash_mismatch"],
  ["block_hash", sha256Hex("another block"), 400, "block_hash_mismatch"],
  ["ciphertext_b64", undefined, 400, "missing_field:ciphertext_b64"],
  ["ciphertext_b64", null, 400, "invalid_field:ciphertext_b64"],
  ["ciphertext_b64", 12, 400, "invalid_field:ciphertext_b64"],
  ["ciphertext_b64", ["YQ=="], 400, "invalid_field:ciphertext_b64"],
  ["ciphertext_b64", "", 400, "invalid_field:ciphertext_b64"],
  ["ciphertext_b64", "not base64!", 400, "invalid_field:ciphertext_b64"],
  ["ciphertext_b64", "YQ", 400, "invalid_field:ciphertext_b64"],
  ["ciphertext_b64", "YR==", 400, "invalid_field:ciphertext_b64"],
  ["ciphertext_b64", "YWJj\n", 400, "invalid_field:ciphertext_b64"],
  ["ciphertext_b64", " YWJj", 400, "invalid_field:ciphertext_b64"],
  ["ciphertext_b64", "_-8=", 400, "invalid_field:ciphertext_b64"],
  ["ciphertext_b64", "YWJj\0", 400, "invalid_field:ciphertext_b64"],
  ["ciphertext_b64", "YWJj", 400, "block_hash_mismatch"],
  ["ciphertext_b64", Buffer.alloc(262_145).toString("base64"), 413, "chunk_too_large"],
  ["ciphertext_b64", Buffer.alloc(1_000_000).toString("base64"), 413, "chunk_too_large"],
  ["ciphertext_b64", "!".repeat(400_000), 413, "chunk_too_large"],
  ["client_payload_hash", "0", 400, "invalid_field:client_payload_hash"],
  ["client_payload_hash", 7, 400, "invalid_field:client_payload_hash"],
  ["timestamp", "", 400, "invalid_field:timestamp"],
  ["timestamp", "yesterday", 400, "invalid_field:timestamp"],
  ["timestamp", 1700000000000, 400, "invalid_field:timestamp"],
  ["timestamp", "2026-11-20T12:00:00\0Z", 400, "invalid_field:timestamp"],
  ["timestamp", "2026-11-20T12:00:00Z\ud800", 400, "invalid_field:timestamp"],
  ["timestamp", `2026-11-20T12:00:00.${"0".repeat(64)}Z`, 400, "invalid_field:timestamp"],
];

/** Values of `since` that are not a whole number from -1 up to the largest safe integer. */
const NOT_SINCE = [
  "x",
  "-2",
  "-0",
  "+1",
  "01",
  "1.5",
  "1e3",
  "0x10",
  "null",
  "NaN",
  "%201",
  "1%20",
  "1%00",
  "%zz",
  "１",
  "9007199254740992",
  "99999999999999999999",
];

onOneBackend((test) => {
  for (const [field, value, status, code] of WRONG) {
    test(`POST /replicate answers ${status} ${code} when ${field} is ${show(value)}`, async (world) => {
      const body = { ...replicateBody(chunk(0)), [field]: value };
      const answer = await refusedWithoutTrace(world, body);
      assert.deepEqual([answer.status, answer.body.error, answer.body.index], [status, code, undefined]);
    });
  }

  for (const [field, value, status, code] of WRONG_IN_CHUNK) {
    test(`POST /replicate answers ${status} ${code} with index when a chunk's ${field} is ${show(value)}`, async (world) => {
      const body = replicateBody(chunk(0), { ...chunk(1), [field]: value });
      const answer = await refusedWithoutTrace(world, body);
      assert.deepEqual([answer.status, answer.body.error, answer.body.index], [status, code, 1]);
    });
  }

  test("POST /replicate answers 400 invalid_field:chunks with index when a chunk is not an object", async (world) => {
    for (const wrong of [null, 0, "0", [], [chunk(1)], true, 1e308]) {
      const body = { ...replicateBody(chunk(0)), chunks: [chunk(0), wrong] };
      const answer = await refusedWithoutTrace(world, body);
      const code = Array.isArray(wrong) ? answer.body.error : "invalid_field:chunks";
      assert.deepEqual([answer.status, answer.body.error, answer.body.index], [400, code, 1], show(wrong));
    }
  });

  test("POST /replicate names an absent field before a wrong one", async (world) => {
    const answer = await refusedWithoutTrace(world, { chunks: [{ ...chunk(0), sequence_number: -1 }] });
    assert.equal(answer.body.error, "missing_field:merkle_root");
    const inChunk = replicateBody({ ...chunk(0), sequence_number: -1 }, {
      ...chunk(1),
      block_hash: undefined,
    });
    const { body } = await refusedWithoutTrace(world, inChunk);
    assert.deepEqual([body.error, body.index], ["missing_field:block_hash", 1]);
  });

  test("POST /replicate answers 400 invalid_json for bodies that are not a JSON object", async (world) => {
    const invalidUtf8 = new Uint8Array([...new TextEncoder().encode('{"merkle_root":"'), 0xff, 0x22, 0x7d]);
    for (const body of ["", "{", "null", "[]", "[{}]", '"0"', "0", "1e308", "true", "{}{}", invalidUtf8]) {
      const answer = await refusedWithoutTrace(world, body);
      assert.deepEqual([answer.status, answer.body.error], [400, "invalid_json"], String(body));
    }
  });

  test("POST /replicate survives deep and prototype-naming JSON, and ignores unknown fields", async (world) => {
    const deep = `{"chunks":${"[".repeat(50_000)}${"]".repeat(50_000)},"merkle_root":"${ZERO_HASH}"}`;
    for (const body of [deep, `{"__proto__":{"chunks":[{}]},"constructor":1,"merkle_root":"${ZERO_HASH}"}`]) {
      assert.equal((await refusedWithoutTrace(world, body)).status, 400);
    }
    const body = { ...replicateBody({ ...chunk(0), accepted: -1, log_id: 1 }), agent_id: "someone else" };
    const answer = await world.request("POST", "/replicate", { token: newProjectToken(), body });
    assert.deepEqual([answer.status, answer.body.accepted], [200, 1]);
  });

  test("POST /replicate takes upper-case hex and null for the optional fields, and stores lower case", async (world) => {
    const token = newProjectToken();
    const sent = chunk(0);
    const upper = { ...sent, block_hash: String(sent.block_hash).toUpperCase() };
    const root = sha256Hex("root");
    const body = {
      chunks: [{ ...upper, client_payload_hash: null, timestamp: null }],
      merkle_root: root.toUpperCase(),
    };
    const answer = await world.request("POST", "/replicate", { token, body });
    assert.deepEqual([answer.status, answer.body.merkle_root], [200, root]);
    const { body: replay } = await world.request("GET", "/replay?since=0", { token });
    assert.equal(replay.chunks[0].block_hash, sent.block_hash);
  });

  test("POST /replicate answers 413 body_too_large beyond 8 MiB, whatever length was announced", async (world) => {
    const bytes = (size: number) => `{"padding":"${"x".repeat(size)}"}`;
    for (const size of [BODY_BYTES_MAX, 2 * BODY_BYTES_MAX]) {
      const answer = await refusedWithoutTrace(world, bytes(size));
      assert.deepEqual([answer.status, answer.body.error], [413, "body_too_large"]);
    }
    const lying = await refusedWithoutTrace(world, bytes(BODY_BYTES_MAX), { "content-length": "17" });
    assert.ok(lying.status === 413 || lying.status === 400, String(lying.status));
    const below = await refusedWithoutTrace(world, bytes(BODY_BYTES_MAX - 64));
    assert.equal(below.body.error, "missing_field:chunks");
  });

  test("POST /replicate takes a body of the largest chunks that fit and 1000 small ones", async (world) => {
    const large = Array.from({ length: 20 }, (_, i) => chunk(i, randomBytes(262_144)));
    const small = Array.from({ length: 1000 }, (_, i) => chunk(20 + i, randomBytes(1)));
    const token = newProjectToken();
    for (const sent of [large, small]) {
      const answer = await world.request("POST", "/replicate", { token, body: replicateBody(...sent) });
      assert.deepEqual([answer.status, answer.body.accepted], [200, sent.length]);
    }
  });

  test("GET /replay answers 400 missing_since_param without since or with an empty one", async (world) => {
    for (const path of ["/replay", "/replay?", "/replay?since", "/replay?since=", "/replay?Since=0"]) {
      const answer = await world.request("GET", path, { token: newProjectToken() });
      assert.deepEqual([answer.status, answer.body.error], [400, "missing_since_param"], path);
    }
  });

  test("GET /replay answers 400 invalid_field:since for anything but a whole number from -1", async (world) => {
    const { token } = await newPaidKey(world);
    for (const since of NOT_SINCE) {
      const answer = await world.request("GET", `/replay?since=${since}`, { token });
      assert.deepEqual([answer.status, answer.body.error], [400, "invalid_field:since"], since);
    }
    const largest = await world.request("GET", `/replay?since=${Number.MAX_SAFE_INTEGER}`, { token });
    assert.deepEqual([largest.status, largest.body.count], [200, 0]);
  });
});

/** Sends a request that must be refused, and checks that the database is exactly as it was. */
async function refusedWithoutTrace(world: World, body: unknown, headers: Record<string, string> = {}) {
  const before = await rowCounts(world);
  const answer = await world.request("POST", "/replicate", { token: newProjectToken(), body, headers });
  assert.ok(answer.status >= 400 && answer.status < 500, `${answer.status} ${answer.text.slice(0, 200)}`);
  assert.equal(answer.body.request_id, answer.headers.get("x-request-id"));
  assert.deepEqual(await rowCounts(world), before);
  return answer;
}

async function rowCounts(world: World): Promise<Record<string, string>> {
  const tables = ["owners", "accounts", "logs", "log_entries", "credit_ledger", "devices"];
  const counts = tables.map((table) => `(select count(*) from app.${table}) as ${table}`);
  return (await world.sql.query(`select ${counts.join(", ")}`)).rows[0];
}

function show(value: unknown): string {
  const text = JSON.stringify(value) ?? "absent";
  return text.length <= 40 ? text : `${text.slice(0, 24)}… (${text.length})`;
}
