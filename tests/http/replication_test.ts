/** POST /replicate, GET /head and GET /replay: what the log takes, refuses, charges and gives back. Spec 4.2. */

import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { randomBytes } from "node:crypto";
import {
  balanceOf,
  chunk,
  newKeyOf,
  newPaidKey,
  newProjectToken,
  replicateBody,
  sha256Hex,
  ZERO_HASH,
} from "../support/factories.ts";
import { type Answer, onEveryBackend, type World } from "../support/harness.ts";

type Chunk = Record<string, unknown>;

/** Roots that an existing client sends after each of the blocks `block-0`, `block-1` and `block-2`. */
const CLIENT_ROOTS = [
  "755421a57572f4a13d6f22741167e9ed69dc87104c802675b09bf552ff58e08d",
  "a2227dc8ba634ef9658eecf1563a8fc75f1bbbcf71b12090e05d76639b4231d4",
  "b105d9600d8cbf5e266a5f54e67e3d41da6505acce657979804a9f6a41b7dad3",
];

onEveryBackend((test) => {
  test("POST /replicate answers 200 with what it accepted, for one chunk and for many", async (world) => {
    const token = newProjectToken();
    const one = replicateBody(chunk(0));
    const first = await world.request("POST", "/replicate", { token, body: one });
    assert.equal(first.status, 200);
    assert.deepEqual(first.body, { accepted: 1, sequence_number: 0, merkle_root: one.merkle_root });
    const many = replicateBody(...chunks(1, 100));
    const second = await world.request("POST", "/replicate", { token, body: many });
    assert.equal(second.status, 200);
    assert.deepEqual(second.body, { accepted: 100, sequence_number: 100, merkle_root: many.merkle_root });
  });

  test("GET /head answers 404 no_replication_entries, then the head with exactly its three fields", async (world) => {
    const token = newProjectToken();
    const none = await world.request("GET", "/head", { token });
    assert.deepEqual([none.status, none.body.error], [404, "no_replication_entries"]);
    const body = replicateBody(...chunks(0, 3));
    await world.request("POST", "/replicate", { token, body });
    const head = await world.request("GET", "/head", { token });
    assert.equal(head.status, 200);
    assert.match(head.body.updated_at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    assert.deepEqual({ ...head.body, updated_at: null }, {
      sequence_number: 2,
      merkle_root: body.merkle_root,
      updated_at: null,
    });
  });

  test("GET /replay gives every block back byte for byte, in order, with the root of its request", async (world) => {
    const token = newProjectToken();
    const blocks = [1, 262_144, 11, 12, 13, 65_536, 4096].map((size) => randomBytes(size));
    const sent = blocks.map((block, i) => chunk(i, block));
    const bodies = [
      replicateBody(sent[0]!),
      replicateBody(...sent.slice(1, 5)),
      replicateBody(...sent.slice(5)),
    ];
    for (const body of bodies) {
      assert.equal((await world.request("POST", "/replicate", { token, body })).status, 200);
    }
    const { status, body, headers } = await world.request("GET", "/replay?since=-1", { token });
    assert.equal(status, 200);
    assert.match(headers.get("content-type")!, /^application\/json/);
    assert.deepEqual(Object.keys(body), ["chunks", "count", "has_more"]);
    assert.deepEqual([body.count, body.has_more, body.chunks.length], [7, false, 7]);
    for (const [i, block] of blocks.entries()) {
      const { created_at, ...rest } = body.chunks[i];
      assert.match(created_at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
      const root = bodies[i === 0 ? 0 : i < 5 ? 1 : 2]!.merkle_root;
      assert.deepEqual({ ...rest, ciphertext_b64: null }, {
        sequence_number: i,
        block_hash: sha256Hex(block),
        ciphertext_b64: null,
        merkle_root: root,
      });
      assert.ok(Buffer.from(rest.ciphertext_b64, "base64").equals(block), `block ${i}`);
    }
  });

  test("GET /replay starts over for since -1 and 0 and is strictly greater otherwise", async (world) => {
    for (const first of [0, 1]) {
      const token = newProjectToken();
      await append(world, token, ...chunks(first, 4));
      const all = [0, 1, 2, 3].map((i) => i + first);
      for (const since of [-1, 0]) {
        assert.deepEqual(await replayed(world, token, since), all, `${first}, ${since}`);
      }
      for (const since of [1, 2, 3, 4, 5, Number.MAX_SAFE_INTEGER]) {
        assert.deepEqual(
          await replayed(world, token, since),
          all.filter((n) => n > since),
          `${first}, ${since}`,
        );
      }
    }
  });

  test("GET /replay answers 200 with no chunks for a token that never wrote", async (world) => {
    const answer = await world.request("GET", "/replay?since=0", { token: newProjectToken() });
    assert.deepEqual([answer.status, answer.body], [200, { chunks: [], count: 0, has_more: false }]);
  });

  test("GET /replay answers 1000 of more entries with has_more, and the next page the rest", async (world) => {
    const token = newProjectToken();
    await append(world, token, ...chunks(0, 1000));
    const exact = await world.request("GET", "/replay?since=-1", { token });
    assert.deepEqual([exact.body.count, exact.body.chunks.length, exact.body.has_more], [1000, 1000, false]);
    await append(world, token, ...chunks(1000, 7));
    const first = await world.request("GET", "/replay?since=-1", { token });
    assert.deepEqual([first.body.count, first.body.chunks.length, first.body.has_more], [1000, 1000, true]);
    const rest = await world.request("GET", `/replay?since=${first.body.chunks.at(-1).sequence_number}`, {
      token,
    });
    assert.deepEqual([rest.body.count, rest.body.has_more], [7, false]);
    const numbers = [...first.body.chunks, ...rest.body.chunks].map((each) => each.sequence_number);
    assert.deepEqual(numbers, Array.from({ length: 1007 }, (_, i) => i));
  });

  test("POST /replicate takes 0 or 1 as a log's first sequence and nothing else", async (world) => {
    for (const first of [0, 1]) {
      assert.equal((await append(world, newProjectToken(), chunk(first), chunk(first + 1))).status, 200);
    }
    for (const first of [2, 57, Number.MAX_SAFE_INTEGER]) {
      const token = newProjectToken();
      assertGap(await append(world, token, chunk(first)), 0, null);
      assert.equal((await world.request("GET", "/head", { token })).status, 404);
    }
  });

  test("POST /replicate answers 409 sequence_gap when a number is skipped, and writes nothing", async (world) => {
    const token = newProjectToken();
    assertGap(await append(world, token, chunk(0), chunk(2)), 0, null);
    await append(world, token, ...chunks(1, 3));
    assertGap(await append(world, token, chunk(5)), 4, 3);
    assertGap(await append(world, token, chunk(4), chunk(6)), 4, 3);
    // Number 0 would come before a log that began with 1.
    assertGap(await append(world, token, chunk(0)), 4, 3);
    assert.deepEqual(await replayed(world, token, 0), [1, 2, 3]);
  });

  test("POST /replicate answers exactly {idempotent: true} to a repeat and charges nothing", async (world) => {
    const key = await newPaidKey(world, 1000);
    const sent = [chunk(0), chunk(1), chunk(2)];
    const bodies = [sent, [sent[1]!], [sent[2]!, sent[0]!]].map((each) => replicateBody(...each));
    await world.request("POST", "/replicate", { token: key.token, body: bodies[0] });
    const before = await traces(world);
    for (const body of bodies) {
      const repeat = await world.request("POST", "/replicate", { token: key.token, body });
      assert.deepEqual([repeat.status, repeat.body], [200, { idempotent: true }]);
    }
    assert.deepEqual(await traces(world), before);
    assert.equal(await balanceOf(world, key.accountId), 1000 - price(3 * 64));
    const { body: head } = await world.request("GET", "/head", { token: key.token });
    assert.equal(head.merkle_root, bodies[0]!.merkle_root);
  });

  test("POST /replicate with a partial overlap writes and charges only the tail", async (world) => {
    const key = await newPaidKey(world, 1000);
    const sent = chunks(0, 5, 100);
    const first = replicateBody(...sent.slice(0, 3));
    await world.request("POST", "/replicate", { token: key.token, body: first });
    const body = replicateBody(...sent.slice(1));
    const answer = await world.request("POST", "/replicate", { token: key.token, body });
    assert.deepEqual([answer.status, answer.body], [200, {
      accepted: 2,
      sequence_number: 4,
      merkle_root: body.merkle_root,
    }]);
    assert.equal(await balanceOf(world, key.accountId), 1000 - price(300) - price(200));
    const { body: replay } = await world.request("GET", "/replay?since=0", { token: key.token });
    assert.deepEqual(
      replay.chunks.map((each: Chunk) => each.merkle_root),
      [0, 1, 2, 3, 4].map((i) => i < 3 ? first.merkle_root : body.merkle_root),
    );
  });

  test("POST /replicate answers 409 split_brain_detected with every conflict, also before a new tail", async (world) => {
    const key = await newPaidKey(world, 1000);
    const sent = chunks(0, 4);
    await append(world, key.token, ...sent);
    const before = await traces(world);
    const fork = [sent[0]!, chunk(1), sent[2]!, chunk(3)];
    const conflicts = [1, 3].map((i) => ({
      sequence_number: i,
      existing_block_hash: sent[i]!.block_hash,
      attempted_block_hash: fork[i]!.block_hash,
    }));
    for (const request of [fork, [...fork, chunk(4)], [...fork, chunk(9)], fork.toReversed()]) {
      const answer = await append(world, key.token, ...request);
      assert.deepEqual([answer.status, answer.body.error], [409, "split_brain_detected"]);
      assert.deepEqual(answer.body.conflicts, conflicts);
    }
    assert.deepEqual(await traces(world), before);
    const { body } = await world.request("GET", "/replay?since=0", { token: key.token });
    assert.deepEqual(body.chunks.map((each: Chunk) => each.block_hash), sent.map((each) => each.block_hash));
  });

  test("POST /replicate takes chunks in any order and equal duplicates inside a request", async (world) => {
    const key = await newPaidKey(world, 1000);
    const sent = chunks(0, 3, 100);
    const answer = await append(world, key.token, sent[2]!, sent[0]!, sent[2]!, sent[1]!, sent[0]!);
    assert.deepEqual([answer.status, answer.body.accepted, answer.body.sequence_number], [200, 3, 2]);
    assert.equal(await balanceOf(world, key.accountId), 1000 - price(300));
    assert.deepEqual(await replayed(world, key.token, 0), [0, 1, 2]);
  });

  test("POST /replicate answers 409 split_brain_detected when a request contradicts itself", async (world) => {
    const token = newProjectToken();
    const [a, b] = [chunk(0), chunk(0)];
    const answer = await append(world, token, a, b, chunk(1));
    assert.deepEqual([answer.status, answer.body.error], [409, "split_brain_detected"]);
    assert.deepEqual(answer.body.conflicts, [
      { sequence_number: 0, existing_block_hash: a.block_hash, attempted_block_hash: b.block_hash },
    ]);
    assert.equal((await world.request("GET", "/head", { token })).status, 404);
  });

  test("a sov_live_ key pays ceil(bytes × 45 / 1000) for each request; a sov_proj_ token pays nothing", async (world) => {
    const key = await newPaidKey(world, 100_000);
    let [next, balance] = [0, 100_000];
    for (const sizes of [[1], [22], [23], [1, 1, 1], [200], [111, 112], [262_144]]) {
      const bytes = sizes.reduce((sum, size) => sum + size);
      const answer = await append(world, key.token, ...sizes.map((size) => chunk(next++, randomBytes(size))));
      assert.equal(answer.status, 200);
      balance -= Math.ceil(bytes * 45 / 1000);
      assert.equal(await balanceOf(world, key.accountId), balance, `${sizes} bytes`);
    }
    const { rows } = await world.sql.query(
      "select sum(amount_milli)::int as sum from app.credit_ledger where account_id = $1",
      [key.accountId],
    );
    assert.equal(rows[0].sum, balance);
    const before = (await traces(world)).credit_ledger;
    assert.equal((await append(world, newProjectToken(), chunk(0, randomBytes(1000)))).status, 200);
    assert.equal((await traces(world)).credit_ledger, before);
  });

  test("POST /replicate answers 402 insufficient_credits, changes nothing, and works once there is credit", async (world) => {
    const key = await newPaidKey(world, 99);
    const sent = chunks(0, 2, 1000);
    await append(world, key.token, sent[0]!);
    const before = await traces(world);
    for (
      const request of [[chunk(1, randomBytes(2000))], [sent[0]!, sent[1]!, chunk(2, randomBytes(1000))]]
    ) {
      const answer = await append(world, key.token, ...request);
      assert.deepEqual([answer.status, answer.body.error], [402, "insufficient_credits"]);
    }
    assert.deepEqual(await traces(world), before);
    assert.equal(await balanceOf(world, key.accountId), 54);
    assert.equal((await world.request("GET", "/head", { token: key.token })).body.sequence_number, 0);
    assert.equal((await append(world, key.token, sent[1]!)).status, 200);
    assert.equal(await balanceOf(world, key.accountId), 9);
  });

  test("POST /replicate answers 403 trial_quota_exceeded beyond a project token's quota while reads go on", async (world) => {
    const token = newProjectToken();
    const small = world.with({ settings: { projectQuotaBytes: 1500 } });
    assert.equal((await append(small, token, chunk(0, randomBytes(1000)))).status, 200);
    const refused = await append(small, token, chunk(1, randomBytes(501)));
    assert.deepEqual([refused.status, refused.body.error], [403, "trial_quota_exceeded"]);
    assert.equal((await append(small, token, chunk(1, randomBytes(500)))).status, 200);
    assert.equal((await small.request("GET", "/replay?since=0", { token })).body.count, 2);
  });

  test("all keys of a user write one log, and two tenants never see each other's", async (world) => {
    const key = await newPaidKey(world);
    const other = await newKeyOf(world, key.accountId);
    assert.equal((await append(world, key.token, chunk(0))).status, 200);
    assert.equal((await append(world, other.token, chunk(1))).status, 200);
    for (const { token } of [key, other]) assert.deepEqual(await replayed(world, token, 0), [0, 1]);
    for (const token of [(await newPaidKey(world)).token, newProjectToken()]) {
      assert.equal((await world.request("GET", "/head", { token })).status, 404);
      assert.deepEqual(await replayed(world, token, 0), []);
      assert.equal((await append(world, token, chunk(0))).body.accepted, 1);
    }
    assert.deepEqual(await replayed(world, key.token, 0), [0, 1]);
  });

  test("an existing client's blocks go in one by one and come back with their own roots", async (world) => {
    const token = newProjectToken();
    const sent = CLIENT_ROOTS.map((_, i) => chunk(i, `block-${i}`));
    for (const [i, merkle_root] of CLIENT_ROOTS.entries()) {
      // The root is SHA-256(previous root ‖ block hash), from zeros.
      const previous = CLIENT_ROOTS[i - 1] ?? ZERO_HASH;
      assert.equal(merkle_root, sha256Hex(Buffer.from(previous + sent[i]!.block_hash, "hex")), "the vector");
      const body = { chunks: [sent[i]], merkle_root };
      const answer = await world.request("POST", "/replicate", { token, body });
      assert.deepEqual([answer.status, answer.body.accepted, answer.body.sequence_number], [200, 1, i]);
      // It reads 200 and nothing else as success, and repeats a request whose answer was lost.
      const repeat = await world.request("POST", "/replicate", { token, body });
      assert.deepEqual([repeat.status, repeat.body], [200, { idempotent: true }]);
      assert.equal((await world.request("GET", "/head", { token })).body.merkle_root, merkle_root);
    }
    const { body } = await world.request("GET", "/replay?since=-1", { token });
    for (const [i, { created_at: _, ...shown }] of body.chunks.entries()) {
      assert.deepEqual(shown, { ...sent[i], merkle_root: CLIENT_ROOTS[i] });
    }
    assert.equal(body.count, CLIENT_ROOTS.length);
  });
});

function chunks(first: number, count: number, size = 64): Chunk[] {
  return Array.from({ length: count }, (_, i) => chunk(first + i, randomBytes(size)));
}

function append(world: Pick<World, "request">, token: string, ...sent: Chunk[]): Promise<Answer> {
  return world.request("POST", "/replicate", { token, body: replicateBody(...sent) });
}

async function replayed(world: World, token: string, since: number): Promise<number[]> {
  const { status, body } = await world.request("GET", `/replay?since=${since}`, { token });
  assert.deepEqual([status, body.count], [200, body.chunks.length]);
  return body.chunks.map((each: { sequence_number: number }) => each.sequence_number);
}

function assertGap(answer: Answer, expected: number, head: number | null): void {
  assert.equal(answer.status, 409);
  const { request_id, ...rest } = answer.body;
  assert.match(request_id, /^[0-9a-f-]{36}$/);
  assert.deepEqual(rest, { error: "sequence_gap", expected_sequence: expected, head, conflicts: [] });
}

function price(bytes: number): number {
  return Math.ceil(bytes * 45 / 1000);
}

/** What a request that changes nothing must leave as it was. */
async function traces(world: World): Promise<Record<string, string>> {
  const { rows } = await world.sql.query(`
    select (select count(*) from app.owners) as owners,
           (select count(*) from app.log_entries) as log_entries,
           (select count(*) from app.credit_ledger) as credit_ledger,
           (select md5(string_agg(l::text, ';' order by id)) from app.logs l) as logs,
           (select md5(string_agg(a::text, ';' order by id)) from app.accounts a) as accounts`);
  return rows[0];
}
