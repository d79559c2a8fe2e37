/**
 * Concurrent clients and random faults: everything that anybody was ever told of snapshots and of the replication log
 * fits one order of events, and what was kept is what was sent. A failure names its seed: PROOF_SEED=… repeats it.
 */

import assert from "node:assert/strict";
import { chanceOf, newSeed } from "../support/chance.ts";
import { openClaim, THOROUGH } from "../support/claims.ts";
import { newProjectToken, sha256Hex } from "../support/factories.ts";
import { onOneBackend, type World } from "../support/harness.ts";
import { checkHistory, type Event, type Model } from "../support/histories/checker.ts";
import { recordHistory, speakOfLog, speakOfSnapshots } from "../support/histories/clients.ts";
import { REPLICATION } from "../support/histories/replication.ts";
import { SNAPSHOTS } from "../support/histories/snapshots.ts";
import { assertInvariants } from "../support/invariants.ts";
import { type Lab, openLab } from "../support/lab.ts";
import { type Nemesis, unleash } from "../support/nemesis.ts";

const HISTORIES = THOROUGH ? 30 : 4;
const CLIENTS = 6;
const REQUESTS = 12;

const told = openClaim("Everything that concurrent clients were told under faults fits one order of events");
const untold = openClaim("… of which the client was never told what became of it");

onOneBackend((test) => {
  let lab: Promise<Lab> | undefined;
  const labOf = (world: World) => lab ??= openLab(world);
  let operations = 0;
  let lost = 0;

  function judge<State, Input, Output>(
    model: Model<State, Input, Output>,
    history: Event<Input, Output>[],
    { done }: Nemesis,
  ) {
    const verdict = checkHistory(model, history);
    operations += history.length;
    lost += history.filter(({ output }) => output === undefined).length;
    if (verdict.linearizable) return;
    const lines = history.map((event) => JSON.stringify(event)).join("\n");
    assert.fail(
      `No order explains ${JSON.stringify(verdict.refused)}; faults: ${JSON.stringify(done)}\n${lines}`,
    );
  }

  for (let i = 0; i < HISTORIES; i++) {
    const seed = newSeed() + i;

    test(`everything that clients were told of an agent's snapshots fits one order of events (${i})`, async (world) => {
      const bench = await labOf(world);
      const agent = `agent-${crypto.randomUUID()}`;
      const nemesis = unleash(bench, chanceOf(seed));
      const history = await recordHistory(speakOfSnapshots(agent), {
        send: bench.request,
        token: newProjectToken(),
        chance: chanceOf(seed),
        clients: CLIENTS,
        requests: REQUESTS,
      }).finally(() => nemesis.stop());
      judge(SNAPSHOTS, history, nemesis);
    });

    test(`everything that clients were told of a log fits one order of events (${i})`, async (world) => {
      const bench = await labOf(world);
      const nemesis = unleash(bench, chanceOf(seed));
      const history = await recordHistory(speakOfLog(crypto.randomUUID()), {
        send: bench.request,
        token: newProjectToken(),
        chance: chanceOf(seed),
        clients: CLIENTS,
        requests: REQUESTS,
      }).finally(() => nemesis.stop());
      judge(REPLICATION, history, nemesis);
    });
  }

  test("every confirmed snapshot of the histories is kept, byte for byte, and the books are right", async (world) => {
    const bench = await labOf(world);
    const { rows } = await world.sql.query(
      "select object_name, encode(client_payload_hash, 'hex') as hash from app.snapshots where status = 'confirmed'",
    );
    assert.ok(rows.length > 0);
    for (const { object_name, hash } of rows) {
      const kept = bench.storage.objects.get(object_name);
      assert.equal(kept === undefined ? undefined : sha256Hex(kept), hash);
    }
    await bench[Symbol.asyncDispose]();
    await assertInvariants(world.sql);
    assert.ok(lost > 0, "no answer was ever lost: the faults do too little");
    assert.ok(
      lost < operations / 2,
      `${lost} of ${operations} answers were lost: the histories say too little`,
    );
    told(operations);
    untold(lost);
  });
});
