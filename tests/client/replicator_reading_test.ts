/** Reading a log back: what was changed, lost or cut off is noticed, and never given out. */

import assert from "node:assert/strict";
import { IntegrityError, NetworkError, RollbackError } from "../../client/errors.ts";
import { createMemoryStore } from "../../client/store.ts";
import type { Cursor } from "../../client/verify.ts";
import type { ReplayPage } from "../../client/wire.ts";
import { onOneBackend } from "../support/harness.ts";
import {
  newAccount,
  newReplicator,
  newToken,
  openStore,
  readTexts,
  record,
  serve,
  spoil,
} from "./support.ts";

onOneBackend((test) => {
  test("replicator: a log that lost, changed or reordered blocks is not read", async (world) => {
    await using served = serve(world);
    const account = newAccount();
    const writer = await newReplicator(served, account);
    for (const text of ["a", "b", "c"]) {
      await writer.append([record(text)]);
      await writer.flush();
    }
    const stranger = await newReplicator(served, account);
    const cursors: Cursor[] = [];
    for await (const { sequence, root } of stranger.pull()) cursors.push({ sequence, root });
    const spoilers: ((chunks: ReplayPage["chunks"]) => ReplayPage["chunks"])[] = [
      (chunks) => chunks.toSpliced(1, 1),
      (chunks) => [chunks[0]!, { ...chunks[2]!, sequence_number: 1 }],
      (chunks) => chunks.map((chunk) => ({ ...chunk, merkle_root: "0".repeat(64) })),
      (chunks) => chunks.map((chunk) => ({ ...chunk, block_hash: "0".repeat(64) })),
    ];
    for (const change of spoilers) {
      served.meddle(spoil(/replay/, (page: ReplayPage) => ({ ...page, chunks: change(page.chunks) })));
      await assert.rejects(readTexts(stranger), IntegrityError);
    }
    served.meddle(spoil(/replay/, (page: ReplayPage) => ({ ...page, chunks: page.chunks.slice(0, 2) })));
    assert.equal((await readTexts(stranger)).length, 2, "a stranger cannot know that the end is missing");
    await assert.rejects(readTexts(writer), RollbackError);
    served.meddle(spoil(/head/, (head: object) => ({ ...head, sequence_number: 1 })));
    await assert.rejects(async () => {
      for await (const _ of stranger.pull({ after: cursors[2]! })) { /* nothing */ }
    }, RollbackError);
  });

  test("replicator: reading goes on from a cursor, and page by page", async (world) => {
    await using served = serve(world);
    const account = newAccount();
    const writer = await newReplicator(served, account);
    for (let i = 0; i < 5; i++) await writer.append([record(String(i))]);
    await writer.flush();
    served.meddle(async (request, forward) => {
      const response = await forward(request);
      if (!request.url.includes("/replay")) return response;
      const page = await response.json() as ReplayPage;
      return Response.json({ ...page, chunks: page.chunks.slice(0, 2), has_more: page.chunks.length > 2 });
    });
    const blocks = [];
    for await (const block of writer.pull()) blocks.push(block);
    assert.equal(blocks.length, 5);
    const rest = [];
    for await (const block of writer.pull({ after: blocks[0]! })) rest.push(block.records[0]!.text);
    assert.deepEqual(rest, ["1", "2", "3", "4"]);
  });

  test("replicator: an answer that breaks off is gone on with where it did, and not for ever", async (world) => {
    await using served = serve(world);
    const writer = await newReplicator(served);
    const texts = Array.from({ length: 12 }, (_, i) => `${i} ${"x".repeat(40_000)}`);
    for (const text of texts) await writer.append([record(text)]);
    await writer.flush();
    let room = 200_000;
    served.meddle(async (request, forward) => {
      const response = await forward(request);
      const whole = await response.bytes();
      const pieces = [whole.subarray(0, room / 2), whole.subarray(room / 2, room)];
      const cut = new ReadableStream<Uint8Array>({
        pull(controller) {
          const piece = pieces.shift();
          if (piece !== undefined) controller.enqueue(piece);
          else if (whole.length > room) controller.error(new Error("cut off"));
          else controller.close();
        },
      });
      return new Response(cut, response);
    });
    assert.deepEqual(await readTexts(writer), texts);
    assert.ok(served.requests.filter((each) => each.includes("/replay")).length >= 3);
    room = 10_000;
    await assert.rejects(readTexts(writer), NetworkError);
  });

  test("replicator: a log that was emptied behind its back raises the alarm, and nothing is written", async (world) => {
    await using served = serve(world);
    const account = { ...newAccount(), store: createMemoryStore() };
    const writer = await newReplicator(served, account);
    for (const text of ["a", "b"]) {
      await writer.append([record(text)]);
      await writer.flush();
    }
    const other = await newReplicator(served, { ...account, token: newToken() });
    await other.append([record("c")]);
    await assert.rejects(other.flush(), RollbackError);
    await assert.rejects(readTexts(other), RollbackError);
  });

  test("replicator: a damaged outbox is not sent", async (world) => {
    await using served = serve(world);
    const directory = await Deno.makeTempDir();
    {
      await using store = await openStore(directory);
      const writer = await newReplicator(served, { store });
      await writer.append([record("a")]);
      await Deno.writeFile(`${directory}/value-block-0-0`, new Uint8Array(40));
      await assert.rejects(writer.flush(), (error: IntegrityError) => error.code === "outbox_damaged");
    }
    await Deno.remove(directory, { recursive: true });
    assert.deepEqual(served.requests, []);
  });
});
