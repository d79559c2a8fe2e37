/** GET /metadata and GET /envelopes, and that no read waits for a write. Spec 2.5, 2.6 and 4.3. */

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
// @deno-types="npm:@types/pg@8.23.1"
import pg from "pg";
import { openDirectDatabase } from "../../supabase/functions/_shared/platform/database_direct.ts";
import { eventually } from "../support/eventually.ts";
import {
  chunk,
  newPaidKey,
  newProjectToken,
  replicateBody,
  sha256Hex,
  snapshotBody,
} from "../support/factories.ts";
import { type Answer, onEveryBackend, type World } from "../support/harness.ts";

const ISO = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
const READ_MS_MAX = 1000;
const READS = ["/head", "/replay?since=0", "/envelopes", "/metadata", "/snapshot/agent/latest"];

onEveryBackend((test) => {
  test("GET /metadata answers zeros and no last sync to a token that never wrote", async (world) => {
    const { status, body } = await world.request("GET", "/metadata", { token: newProjectToken() });
    assert.equal(status, 200);
    assert.deepEqual(body, {
      envelopeCount: 0,
      totalBytes: 0,
      storeOps: 0,
      recallRequests: 0,
      syncOpsUsed: 0,
      syncOpsQuota: Number.MAX_SAFE_INTEGER,
      devicesInSync: 0,
      avgLatencyMs: 0,
      lastSyncAt: null,
    });
  });

  test("GET /metadata counts what was written, and not what was refused or repeated", async (world) => {
    for (const token of [newProjectToken(), (await newPaidKey(world)).token]) {
      const first = [chunk(0, randomBytes(100)), chunk(1, randomBytes(200)), chunk(2, randomBytes(300))];
      await append(world, token, ...first);
      await append(world, token, chunk(3, randomBytes(1)));
      await append(world, token, ...first);
      assert.equal((await append(world, token, chunk(9))).status, 409);
      assert.equal((await append(world, token, chunk(1))).status, 409);
      const { body } = await world.request("GET", "/metadata", { token });
      assert.match(body.lastSyncAt, ISO);
      assert.ok(Math.abs(Date.parse(body.lastSyncAt) - Date.now()) < 60_000);
      assert.equal(typeof body.avgLatencyMs, "number");
      assert.ok(body.avgLatencyMs > 0 && body.avgLatencyMs < 60_000, String(body.avgLatencyMs));
      assert.deepEqual({ ...body, avgLatencyMs: 0, lastSyncAt: "" }, {
        envelopeCount: 4,
        totalBytes: 601,
        storeOps: 4,
        recallRequests: 0,
        syncOpsUsed: 2,
        syncOpsQuota: Number.MAX_SAFE_INTEGER,
        devicesInSync: 1,
        avgLatencyMs: 0,
        lastSyncAt: "",
      });
    }
  });

  test("GET /metadata counts each x-device-id that wrote or read once", async (world) => {
    const token = newProjectToken();
    const devices = async () => (await world.request("GET", "/metadata", { token })).body.devicesInSync;
    const write = async (sequence: number, device: string) => {
      const headers = { "x-device-id": device };
      const body = replicateBody(chunk(sequence));
      assert.equal((await world.request("POST", "/replicate", { token, body, headers })).status, 200);
    };
    await write(0, "laptop");
    await write(1, "laptop");
    assert.equal(await devices(), 1);
    await write(2, "phone");
    assert.equal(await devices(), 2);
    await world.request("GET", "/head", { token, headers: { "x-device-id": "tablet" } });
    await eventually("a device that only reads is counted", async () => await devices() === 3);
    const { rows } = await world.sql.query("select encode(device_hash, 'hex') as hash from app.devices");
    assert.ok(rows.some((row: { hash: string }) => row.hash === sha256Hex("laptop")));
  });

  test("GET /metadata counts replays, envelope pages and restores as recalls, soon after them", async (world) => {
    for (const token of [newProjectToken(), (await newPaidKey(world)).token]) {
      await append(world, token, chunk(0));
      await world.request("POST", "/snapshot", { token, body: snapshotBody() });
      for (const path of [...READS, "/snapshot/agent/0", "/head", "/metadata"]) {
        assert.equal((await world.request("GET", path, { token })).status, 200, path);
      }
      const recalls = async () => (await world.request("GET", "/metadata", { token })).body.recallRequests;
      await eventually("four recalls are counted", async () => await recalls() === 4);
      await world.request("GET", "/replay?since=0", { token });
      await eventually("a fifth recall is counted", async () => await recalls() === 5);
    }
  });

  test("GET /envelopes splits each block after its IV and shows what the client said about it", async (world) => {
    const token = newProjectToken();
    const blocks = [28, 12, 5, 262_144].map((size) => randomBytes(size));
    const sent = blocks.map((block, i) => chunk(i, block));
    const payload = sha256Hex("payload");
    const timestamp = "2026-01-02T03:04:05.678901+02:00";
    Object.assign(sent[1]!, { client_payload_hash: payload.toUpperCase() });
    Object.assign(sent[2]!, { timestamp });
    Object.assign(sent[3]!, { client_payload_hash: payload, timestamp });
    assert.equal((await append(world, token, ...sent)).status, 200);
    const { status, body, headers } = await world.request("GET", "/envelopes", { token });
    assert.deepEqual([status, headers.get("x-result-count"), headers.get("x-next-cursor")], [200, "4", ""]);
    assert.match(headers.get("content-type")!, /^application\/json/);
    const replay = await world.request("GET", "/replay?since=0", { token });
    const written = replay.body.chunks[0].created_at;
    assert.match(written, ISO);
    for (const [i, block] of blocks.entries()) {
      assert.deepEqual(Object.keys(body[i]).sort(), [
        "ciphertext",
        "clientPayloadHash",
        "iv",
        "sequenceNumber",
        "timestamp",
      ]);
      assert.ok(body[i].iv === block.subarray(0, 12).toString("base64"), `iv of ${i}`);
      assert.ok(body[i].ciphertext === block.subarray(12).toString("base64"), `ciphertext of ${i}`);
    }
    assert.deepEqual(body.map((each: Envelope) => each.sequenceNumber), [0, 1, 2, 3]);
    assert.deepEqual(
      body.map((each: Envelope) => each.clientPayloadHash),
      [sent[0]!.block_hash, payload, sent[2]!.block_hash, payload],
    );
    assert.deepEqual(body.map((each: Envelope) => each.timestamp), [written, written, timestamp, timestamp]);
  });

  test("GET /envelopes pages by limit, since and before, all exclusive, until the cursor is empty", async (world) => {
    const token = newProjectToken();
    await append(world, token, ...Array.from({ length: 600 }, (_, i) => chunk(i, randomBytes(20))));
    const cases: [string, number, number, string][] = [
      ["", 0, 100, "99"],
      ["limit=1", 0, 1, "0"],
      ["limit=500", 0, 500, "499"],
      ["since=-1&limit=2", 0, 2, "1"],
      ["since=0&limit=2", 1, 2, "2"],
      ["since=99", 100, 100, "199"],
      ["since=499", 500, 100, ""],
      ["since=597", 598, 2, ""],
      ["since=599", 0, 0, ""],
      ["since=700", 0, 0, ""],
      ["before=3", 0, 3, ""],
      ["before=3&limit=2", 0, 2, "1"],
      ["before=0", 0, 0, ""],
      ["since=10&before=13", 11, 2, ""],
      ["since=10&before=11", 0, 0, ""],
      ["since=10&before=5", 0, 0, ""],
      ["before=9000&limit=500&since=200", 201, 399, ""],
    ];
    for (const [query, first, count, cursor] of cases) {
      const { status, body, headers } = await world.request("GET", `/envelopes?${query}`, { token });
      assert.equal(status, 200, query);
      const expected = Array.from({ length: count }, (_, i) => first + i);
      assert.deepEqual(body.map((each: Envelope) => each.sequenceNumber), expected, query);
      assert.equal(headers.get("x-result-count"), String(count), query);
      assert.equal(headers.get("x-next-cursor"), cursor, query);
    }
    const seen: number[] = [];
    for (let cursor = "-1"; cursor !== "";) {
      const page = await world.request("GET", `/envelopes?limit=250&since=${cursor}`, { token });
      seen.push(...page.body.map((each: Envelope) => each.sequenceNumber));
      cursor = page.headers.get("x-next-cursor")!;
    }
    assert.deepEqual(seen, Array.from({ length: 600 }, (_, i) => i));
  });

  test("GET /envelopes answers an empty array and an empty cursor to a token that never wrote", async (world) => {
    const { status, body, headers } = await world.request("GET", "/envelopes", { token: newProjectToken() });
    assert.deepEqual([status, body], [200, []]);
    assert.deepEqual([headers.get("x-result-count"), headers.get("x-next-cursor")], ["0", ""]);
  });

  test("GET /envelopes answers 400 invalid_field:<parameter> for a bad limit, since or before", async (world) => {
    const token = newProjectToken();
    const junk = ["", "x", "1.5", "1e2", "0x1", "01", "+1", "%201", "-2", "null", "9007199254740992"];
    const wrong = { limit: [...junk, "0", "-1", "501"], since: junk, before: [...junk, "-1"] };
    for (const [parameter, values] of Object.entries(wrong)) {
      for (const value of values) {
        const answer = await world.request("GET", `/envelopes?${parameter}=${value}`, { token });
        const shown = `${parameter}=${value}`;
        assert.deepEqual([answer.status, answer.body.error], [400, `invalid_field:${parameter}`], shown);
      }
    }
  });

  test("no read waits for a write: all answer at once while every row of the owner is locked", async (world) => {
    const { token, accountId } = await newOwner(world);
    await using _lock = await lockRows(world, accountId);
    for (let round = 0; round < 2; round++) await assertReadsAnswer(world, token);
  });

  test("counting reads never keeps a one-connection pool from reading", async (world) => {
    const { token, accountId } = await newOwner(world);
    const single = openDirectDatabase({
      url: world.databaseUrl,
      poolSize: 1,
      prepared: true,
      role: "service_role",
      log: world.platform.log,
    });
    const counted = { value: 0 };
    const service = world.with({
      db: {
        ...single.db,
        async call<T>(...args: Parameters<typeof single.db.call>) {
          if (args[0] === "record_reads") counted.value++;
          return await single.db.call<T>(...args);
        },
      },
    });
    try {
      await using _lock = await lockRows(world, accountId);
      await assertReadsAnswer(service, token);
      await eventually("the reads are being counted", () => counted.value > 0);
      await assertReadsAnswer(service, token);
    } finally {
      await single.close();
    }
  });
});

interface Envelope {
  ciphertext: string;
  iv: string;
  clientPayloadHash: string;
  sequenceNumber: number;
  timestamp: string;
}

function append(world: World, token: string, ...sent: Record<string, unknown>[]): Promise<Answer> {
  return world.request("POST", "/replicate", { token, body: replicateBody(...sent) });
}

/** An owner with something to read, and rows in every table that counting reads would write to. */
async function newOwner(world: World): Promise<{ token: string; accountId: string }> {
  const { token, accountId } = await newPaidKey(world);
  await append(world, token, chunk(0));
  await world.request("POST", "/snapshot", { token, body: snapshotBody() });
  await world.request("GET", "/replay?since=0", { token, headers: { "x-device-id": "laptop" } });
  await eventually("the read is counted", async () => {
    const { rows } = await world.sql.query("select from app.usage_cycles where owner_id = $1", [accountId]);
    return rows.length === 1;
  });
  // Seen long ago, so that the next sight of it is written down.
  await world.sql.query(
    "update app.devices set last_seen_at = now() - interval '1 day' where owner_id = $1",
    [accountId],
  );
  return { token, accountId };
}

/** Locks all rows that an owner's writes touch until it is disposed of. */
async function lockRows(world: World, accountId: string): Promise<AsyncDisposable> {
  const client = new pg.Client({ connectionString: world.databaseUrl });
  await client.connect();
  await client.query("begin");
  for (const table of ["logs", "devices", "usage_cycles"]) {
    await client.query(`select from app.${table} where owner_id = $1 for update`, [accountId]);
  }
  await client.query("select from app.accounts where id = $1 for update", [accountId]);
  await client.query("select from app.api_keys where account_id = $1 for update", [accountId]);
  return { [Symbol.asyncDispose]: () => client.end() };
}

async function assertReadsAnswer(world: Pick<World, "request">, token: string): Promise<void> {
  for (const path of READS) {
    const deadline = Promise.withResolvers<string>();
    const timer = setTimeout(() => deadline.resolve(`${path} waits`), READ_MS_MAX);
    const answer = world.request("GET", path, { token, headers: { "x-device-id": "laptop" } });
    const first = await Promise.race([answer, deadline.promise]);
    clearTimeout(timer);
    assert.ok(typeof first !== "string", String(first));
    assert.equal(first.status, 200, path);
  }
}
