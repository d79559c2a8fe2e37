/** A state that processes share through a log: what the adapters stand on. */

import assert from "node:assert/strict";
import { AuthError, NetworkError } from "../../client/errors.ts";
import { Journal } from "../../client/journal.ts";
import type { Replicator } from "../../client/replicator.ts";
import { onOneBackend } from "../support/harness.ts";
import { newAccount, newReplicator, serve } from "./support.ts";

/** A list that entries are added to. */
function newList(log: Replicator, kind = "list"): Journal<string[]> {
  return new Journal<string[]>({
    log,
    kind,
    create: () => [],
    apply: (list, text) => void list.push(String(text)),
  });
}

const AWAY = () => Promise.resolve(new Response("away", { status: 502 }));

onOneBackend((test) => {
  test("journal: processes that share a log share the state, in one order", async (world) => {
    await using served = serve(world);
    const account = newAccount();
    const logs = await Promise.all([1, 2, 3].map(() => newReplicator(served, account)));
    const lists = logs.map((log) => newList(log));
    await Promise.all(lists.flatMap((list, l) => [0, 1, 2].map((i) => list.append(`${l}.${i}`))));
    const states = await Promise.all(lists.map((list) => list.read()));
    assert.equal(states[0]!.length, 9);
    for (const state of states) assert.deepEqual(state, states[0]);
    assert.deepEqual(await newList(logs[0]!, "another kind").read(), []);
  });

  test("journal: while the service is away it goes on with what it has, and sends it later", async (world) => {
    await using served = serve(world);
    const account = newAccount();
    const list = newList(await newReplicator(served, account));
    await list.append("before");
    await list.read();
    served.meddle(AWAY);
    await list.append("while away");
    assert.deepEqual(await list.read(), ["before", "while away"]);
    assert.deepEqual(await list.read(), ["before", "while away"], "reading twice applies nothing twice");
    served.meddle(undefined);
    const other = newList(await newReplicator(served, account));
    await other.append("from elsewhere");
    const merged = ["before", "from elsewhere", "while away"];
    assert.deepEqual(await list.read(), merged);
    assert.deepEqual(await other.read(), merged);
  });

  test("journal: what the service refuses is told, and what was never read is not made up", async (world) => {
    await using served = serve(world);
    const list = newList(await newReplicator(served));
    served.meddle(AWAY);
    await assert.rejects(list.read());
    served.meddle(() => Promise.resolve(Response.json({ error: "api_key_revoked" }, { status: 401 })));
    await assert.rejects(list.append("a"), AuthError);
    served.meddle(() => Promise.resolve(new Response("not JSON")));
    await assert.rejects(list.read(), NetworkError);
  });
});
