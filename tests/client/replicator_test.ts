/** The replication log through the client: nothing is lost, nothing is doubled, nothing that was changed is read. */

import assert from "node:assert/strict";
import { AuthError, NetworkError, QuotaError, TooLargeError } from "../../client/errors.ts";
import type { Divergence } from "../../client/replicator.ts";
import { createMemoryStore, type Store } from "../../client/store.ts";
import { onEveryBackend, onOneBackend, type World } from "../support/harness.ts";
import { newAccount, newReplicator, readTexts, record, serve, type Served } from "./support.ts";

/** Answers nothing until it is told to pass everything on again. */
const UNREACHABLE = () => Promise.resolve(new Response("down", { status: 502 }));

/** A device whose second block was written before it heard of the other's. */
async function diverge(served: Served, account: ReturnType<typeof newAccount>, over = {}) {
  const ours = await newReplicator(served, { ...account, ...over });
  const theirs = await newReplicator(served, account);
  await ours.append([record("common")]);
  await ours.flush();
  for await (const _ of theirs.pull()) { /* hears of it */ }
  await theirs.append([record("never sent in this place")]);
  await assert.rejects(async () => {
    served.meddle(UNREACHABLE);
    await theirs.flush();
  });
  served.meddle(undefined);
  await theirs.flush();
  return { ours, theirs };
}

/** A store that says what was done to it. */
function watched(store: Store, events: string[]): Store {
  return {
    read: (name) => store.read(name),
    write: (name, bytes) => (events.push(`write ${name}`), store.write(name, bytes)),
    remove: (name) => (events.push(`remove ${name}`), store.remove(name)),
  };
}

async function blocksOf(world: World, token: string): Promise<number> {
  const answer = await world.request("GET", "/replay?since=-1", { token });
  return answer.body.count;
}

onEveryBackend((test) => {
  test("replicator: what was appended is replayed by a device that has only address, token and key", async (world) => {
    await using served = serve(world);
    const account = newAccount();
    const writer = await newReplicator(served, account);
    const texts = Array.from({ length: 300 }, (_, i) => `${i} ${"ü🦉".repeat(i * 3)}`);
    for (let i = 0; i < texts.length; i += 50) {
      await writer.append(texts.slice(i, i + 50).map((text) => record(text)));
      if (i === 100) await writer.flush();
    }
    const { sent, sequence } = await writer.flush();
    assert.equal(writer.waiting, 0);
    assert.ok(sent > 3 && sequence === await blocksOf(world, account.token) - 1);
    assert.deepEqual(await readTexts(await newReplicator(served, account)), texts);
  });
});

onOneBackend((test) => {
  test("replicator: the ciphertext is on disk before it is sent, and goes when it has arrived", async (world) => {
    await using served = serve(world);
    const events: string[] = [];
    const writer = await newReplicator(served, { store: watched(createMemoryStore(), events) });
    served.meddle((request, forward) => (events.push(request.method), forward(request)));
    await writer.append([record("a")]);
    await writer.flush();
    assert.deepEqual(events, [
      "write block-0-0",
      "write state",
      "POST",
      "write state",
      "remove block-0-0",
      "write state",
    ]);
  });

  test("replicator: an answer that is lost, before and after a crash, doubles nothing", async (world) => {
    await using served = serve(world);
    const account = { ...newAccount(), store: createMemoryStore() };
    const writer = await newReplicator(served, account);
    served.meddle(async (request, forward) => {
      await (await forward(request)).body?.cancel();
      return new Response("lost", { status: 504 });
    });
    await writer.append([record("a"), record("b")]);
    await assert.rejects(writer.flush());
    assert.equal(await blocksOf(world, account.token), 1);

    served.meddle(undefined);
    const again = await newReplicator(served, account);
    assert.equal(again.waiting, 1);
    await again.append([record("c")]);
    await again.flush();
    assert.equal(await blocksOf(world, account.token), 2);
    assert.deepEqual(await readTexts(again), ["a", "b", "c"]);
  });

  test("replicator: after a crash at any write of the store nothing is lost or doubled", async (world) => {
    await using served = serve(world);
    for (let crashAt = 1, crashed = true; crashed; crashAt++) {
      const account = newAccount();
      const store = createMemoryStore();
      let writes = 0;
      crashed = false;
      const step = () => {
        if (crashed) throw new Error("crashed");
        if (++writes < crashAt) return;
        crashed = true;
        throw new Error("crashed");
      };
      const mortal: Store = {
        read: store.read,
        write: async (name, bytes) => (step(), await store.write(name, bytes)),
        remove: async (name) => (step(), await store.remove(name)),
      };
      const appended: string[] = [];
      try {
        const writer = await newReplicator(served, { ...account, store: mortal });
        for (const text of ["a", "b", "c"]) {
          await writer.append([record(text)]);
          appended.push(text);
          if (text !== "a") await writer.flush();
        }
      } catch (error) {
        assert.equal((error as Error).message, "crashed");
      }
      const again = await newReplicator(served, { ...account, store });
      await again.flush();
      const texts = await readTexts(again);
      // The append that crashed was never promised; it may have happened.
      assert.ok(
        [appended.join(""), `${appended.join("")}${"abc"[appended.length]}`].includes(texts.join("")),
      );
      const arrived = await Promise.all(texts.map((_, i) => store.read(`block-0-${i}`)));
      assert.ok(arrived.every((block) => block === undefined), `crash ${crashAt} leaves blocks that arrived`);
    }
  });

  test("replicator: while the service is away appends go on, and all arrive in order", async (world) => {
    await using served = serve(world);
    const writer = await newReplicator(served);
    served.meddle(UNREACHABLE);
    for (const text of ["a", "b"]) {
      await writer.append([record(text)]);
      await assert.rejects(writer.flush());
    }
    assert.deepEqual((await writer.pending()).map(({ text }) => text), ["a", "b"]);
    served.meddle(undefined);
    await Promise.all([
      writer.append([record("c")]),
      writer.flush(),
      writer.append([record("d")]),
      writer.flush(),
    ]);
    await writer.flush();
    assert.deepEqual(await readTexts(writer), ["a", "b", "c", "d"]);
  });

  test("replicator: a device that diverged puts its own after the other's by default", async (world) => {
    await using served = serve(world);
    const account = newAccount();
    const { ours } = await diverge(served, account);
    await ours.append([record("ours")]);
    await ours.flush();
    assert.deepEqual(await readTexts(ours), ["common", "never sent in this place", "ours"]);
    await ours.append([record("later")]);
    await ours.flush();
    assert.equal((await readTexts(ours)).length, 4);
  });

  test("replicator: the resolver sees both sides and may adopt theirs, or merge", async (world) => {
    await using served = serve(world);
    const seen: Divergence[] = [];
    const adopting = newAccount();
    const adopter = await diverge(served, adopting, {
      resolve: (divergence: Divergence) => (seen.push(divergence), "adopt_theirs"),
    });
    await adopter.ours.append([record("ours")]);
    await adopter.ours.flush();
    assert.deepEqual(await readTexts(adopter.ours), ["common", "never sent in this place"]);
    assert.deepEqual(seen.map(({ ours, theirs }) => [ours[0]!.text, theirs[0]!.text]), [
      ["ours", "never sent in this place"],
    ]);

    const merger = await diverge(served, newAccount(), {
      resolve: ({ ours, theirs }: Divergence) => [record(`${theirs[0]!.text} + ${ours[0]!.text}`)],
    });
    await merger.ours.append([record("ours")]);
    await merger.ours.flush();
    assert.equal((await readTexts(merger.ours)).at(-1), "never sent in this place + ours");
  });

  test("replicator: many devices that write at once converge on one log with everything in it", async (world) => {
    await using served = serve(world);
    const account = newAccount();
    const devices = await Promise.all(Array.from({ length: 4 }, () => newReplicator(served, account)));
    await Promise.all(devices.map(async (device, d) => {
      for (let i = 0; i < 5; i++) {
        await device.append([record(`${d}.${i}`)]);
        await device.flush();
      }
    }));
    const logs = await Promise.all(devices.map(readTexts));
    for (const log of logs) assert.deepEqual(log, logs[0]);
    const expected = [0, 1, 2, 3].flatMap((d) => [0, 1, 2, 3, 4].map((i) => `${d}.${i}`));
    assert.deepEqual([...logs[0]!].sort(), expected);
  });

  test("replicator: what is refused goes on waiting, and is told by its class", async (world) => {
    await using served = serve(world);
    const writer = await newReplicator(served);
    await writer.append([record("a")]);
    const refusals = [[401, AuthError], [402, QuotaError], [413, TooLargeError]] as const;
    for (const [status, kind] of refusals) {
      served.meddle(() =>
        Promise.resolve(Response.json({ error: "some_code", request_id: "r1" }, { status }))
      );
      await assert.rejects(writer.flush(), (error: AuthError) => {
        return error instanceof kind && error.code === "some_code" && error.requestId === "r1";
      });
    }
    assert.equal(served.requests.length, 3, "a refusal is not tried again");
    served.meddle(() => Promise.resolve(new Response("<html>captive portal</html>")));
    await assert.rejects(writer.flush(), NetworkError);
    served.meddle(undefined);
    assert.equal((await writer.flush()).sent, 1);
  });

  test("replicator: a record that no block can hold is refused, and changes nothing", async (world) => {
    await using served = serve(world);
    const writer = await newReplicator(served);
    await assert.rejects(writer.append([record("a"), record("x".repeat(262_144))]), TooLargeError);
    assert.equal(writer.waiting, 0);
    await writer.append([record("x".repeat(250_000))]);
    await writer.flush();
    assert.equal((await readTexts(writer))[0]!.length, 250_000);
  });
});
