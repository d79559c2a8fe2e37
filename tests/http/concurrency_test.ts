/** Many writers at once on a real Postgres: one winner, one debit, nobody overspends. Spec 3 and 4. */

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import {
  balanceOf,
  chunk,
  newPaidKey,
  newProjectToken,
  replicateBody,
  snapshotBody,
} from "../support/factories.ts";
import { type Answer, onEveryBackend } from "../support/harness.ts";

const WRITERS = 32;

onEveryBackend((test) => {
  test("32 writers of one snapshot with one hash get one byte-equal receipt and one debit", async (world) => {
    const key = await newPaidKey(world, 100_000);
    // Each encrypts anew: the same plaintext, other bytes.
    const hash = randomBytes(32).toString("hex");
    const bodies = Array.from(
      { length: WRITERS },
      () => snapshotBody({ client_payload_hash: hash }, randomBytes(2000)),
    );
    const answers = await Promise.all(
      bodies.map((body) => world.request("POST", "/snapshot", { token: key.token, body })),
    );
    assert.deepEqual(countStatuses(answers), { 200: WRITERS });
    assert.equal(new Set(answers.map((answer) => answer.text)).size, 1);
    assert.equal(await balanceOf(world, key.accountId), 100_000 - 90);
    const { body } = await world.request("GET", "/snapshot/agent/latest", { token: key.token });
    const stored = new Uint8Array(await (await fetch(body.ciphertextUrl)).arrayBuffer());
    const sent = bodies.map((each) => each.ciphertext_b64);
    assert.ok(sent.includes(btoa(String.fromCharCode(...stored))));
  });

  test("32 writers of one sequence with 32 hashes: exactly one wins, the others are refunded", async (world) => {
    const key = await newPaidKey(world, 100_000);
    const answers = await Promise.all(Array.from(
      { length: WRITERS },
      () =>
        world.request("POST", "/snapshot", { token: key.token, body: snapshotBody({}, randomBytes(2000)) }),
    ));
    assert.deepEqual(countStatuses(answers), { 200: 1, 409: WRITERS - 1 });
    for (const answer of answers.filter((each) => each.status === 409)) {
      assert.equal(answer.body.error, "sequence_conflict");
    }
    assert.equal(await balanceOf(world, key.accountId), 100_000 - 90);
    const next = await world.request("POST", "/snapshot", {
      token: key.token,
      body: snapshotBody({ sequence_number: 1 }),
    });
    assert.equal(next.status, 200);
  });

  test("parallel snapshots of many agents never overspend the balance", async (world) => {
    const key = await newPaidKey(world, 10 * 45);
    const answers = await Promise.all(
      Array.from({ length: WRITERS }, (_, i) =>
        world.request("POST", "/snapshot", {
          token: key.token,
          body: snapshotBody({ agent_id: `agent-${i}` }, randomBytes(1000)),
        })),
    );
    assert.deepEqual(countStatuses(answers), { 200: 10, 402: WRITERS - 10 });
    assert.equal(await balanceOf(world, key.accountId), 0);
  });

  test("parallel appends of the same block are one write and one debit", async (world) => {
    const key = await newPaidKey(world, 100_000);
    const body = replicateBody(chunk(0, randomBytes(1000)));
    const answers = await Promise.all(
      Array.from({ length: WRITERS }, () => world.request("POST", "/replicate", { token: key.token, body })),
    );
    assert.deepEqual(countStatuses(answers), { 200: WRITERS });
    assert.equal(answers.filter((answer) => answer.body.accepted === 1).length, 1);
    assert.equal(answers.filter((answer) => answer.body.idempotent === true).length, WRITERS - 1);
    assert.equal(await balanceOf(world, key.accountId), 100_000 - 45);
  });

  test("parallel appends of different blocks at one sequence: one wins, the others see its hash", async (world) => {
    const token = newProjectToken();
    const answers = await Promise.all(Array.from(
      { length: WRITERS },
      () => world.request("POST", "/replicate", { token, body: replicateBody(chunk(0)) }),
    ));
    assert.deepEqual(countStatuses(answers), { 200: 1, 409: WRITERS - 1 });
    const { body } = await world.request("GET", "/replay?since=-1", { token });
    for (const answer of answers.filter((each) => each.status === 409)) {
      assert.equal(answer.body.error, "split_brain_detected");
      assert.equal(answer.body.conflicts[0].existing_block_hash, body.chunks[0].block_hash);
    }
  });

  test("a reader that follows a log while it is written never sees a hole", async (world) => {
    const token = newProjectToken();
    const blocks = Array.from({ length: 60 }, (_, i) => chunk(i));
    let written = false;
    async function write(): Promise<void> {
      for (let i = 0; i < blocks.length; i += 3) {
        // Each batch is sent twice at once, overlapping the one before it.
        const batch = replicateBody(...blocks.slice(Math.max(i - 2, 0), i + 3));
        const answers = await Promise.all(
          [0, 1].map(() => world.request("POST", "/replicate", { token, body: batch })),
        );
        for (const answer of answers) assert.equal(answer.status, 200, answer.text);
      }
      written = true;
    }
    async function follow(): Promise<number> {
      let since = -1;
      for (let done = false; !done;) {
        done = written;
        const { body } = await world.request("GET", `/replay?since=${since}`, { token });
        for (const entry of body.chunks) {
          if (since === 0 && entry.sequence_number === 0) continue; // `since=0` starts from the start
          assert.equal(entry.sequence_number, since + 1);
          since = entry.sequence_number;
        }
      }
      return since;
    }
    const [last] = await Promise.all([follow(), write()]);
    assert.equal(last, blocks.length - 1);
  });

  test("first writes of one new project token meet without error", async (world) => {
    const token = newProjectToken();
    const answers = await Promise.all(
      Array.from(
        { length: 16 },
        (_, i) =>
          i % 2 === 0
            ? world.request("POST", "/replicate", { token, body: replicateBody(chunk(0, "same")) })
            : world.request("POST", "/snapshot", { token, body: snapshotBody({ agent_id: `agent-${i}` }) }),
      ),
    );
    assert.deepEqual(countStatuses(answers), { 200: 16 });
  });
});

function countStatuses(answers: Answer[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { status } of answers) counts[status] = (counts[status] ?? 0) + 1;
  return counts;
}
