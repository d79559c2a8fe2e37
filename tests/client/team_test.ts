/** Teams through the client: who is in reads everything, who is out reads nothing new, and nobody else ever. */

import assert from "node:assert/strict";
import { ConflictError, ForbiddenError, IntegrityError, RollbackError } from "../../client/errors.ts";
import { createMemoryStore } from "../../client/store.ts";
import { TeamClient, type TeamOptions } from "../../client/team_client.ts";
import {
  fingerprint,
  generateMemberKeys,
  newKeyRing,
  nextKeyRing,
  unwrapKeyRing,
  wrapKeyRing,
} from "../../client/team_key.ts";
import { openMemory, sealMemory } from "../../client/team_memory.ts";
import type { AuditExport } from "../../client/verify.ts";
import { onEveryBackend, onOneBackend, type World } from "../support/harness.ts";
import { newPerson } from "../support/people.ts";
import { IMPATIENT, serve, type Served, spoil } from "./support.ts";

/** Somebody with a session, keys and a store of their own. */
async function newMember(world: World, served: Served): Promise<TeamOptions> {
  const { subject, token } = await newPerson(world);
  const own = { memberId: subject, token, keys: await generateMemberKeys(), store: createMemoryStore() };
  return { baseUrl: served.baseUrl, ...IMPATIENT, ...own };
}

async function valuesOf(team: TeamClient): Promise<unknown[]> {
  return (await Array.fromAsync(team.read())).map(({ value, error }) => error?.code ?? value);
}

function grantOf({ memberId, keys }: TeamOptions, role: "admin" | "write" | "read" = "write") {
  return { memberId, publicKey: keys.publicKey, role };
}

onEveryBackend((test) => {
  test("team client: members share a memory; who is removed reads nothing that comes after", async (world) => {
    await using served = serve(world);
    const [alice, bob, carol] = await Promise.all([1, 2, 3].map(() => newMember(world, served)));
    const team = await TeamClient.create(alice!, "Night shift");
    await team.write({ plan: "ü 🦉", steps: [1, null] });
    await team.grant(grantOf(bob!));
    await team.grant(grantOf(carol!, "read"));
    const asBob = TeamClient.open(bob!, team.teamId);
    await asBob.write("from bob", { agentKey: "laptop" });
    assert.deepEqual(await valuesOf(asBob), [{ plan: "ü 🦉", steps: [1, null] }, "from bob"]);

    assert.equal(await team.rotate({ revoke: bob!.memberId, reason: "left" }), 1);
    await team.write("after bob");
    await assert.rejects(valuesOf(asBob), ForbiddenError);
    await assert.rejects(asBob.write("again"), ForbiddenError);
    const everything = [{ plan: "ü 🦉", steps: [1, null] }, "from bob", "after bob"];
    assert.deepEqual(await valuesOf(TeamClient.open(carol!, team.teamId)), everything);

    const { valid, checked } = await team.verifyAudit();
    assert.ok(valid && checked >= 3);
    assert.equal((await TeamClient.list(alice!))[0]!.id, team.teamId);
  });
});

onOneBackend((test) => {
  test("team client: a lost answer makes no second team and no second entry", async (world) => {
    await using served = serve(world);
    const alice = await newMember(world, served);
    let lose = 1;
    served.meddle(async (request, forward) => {
      const response = await forward(request);
      if (request.method !== "POST" || lose-- <= 0) return response;
      await response.body?.cancel();
      return new Response("lost", { status: 502 });
    });
    const team = await TeamClient.create(alice, "Once");
    assert.equal((await TeamClient.list(alice)).length, 1);
    lose = 1;
    assert.equal(await team.write("first"), 0);
    lose = 1;
    assert.equal(await team.write("second"), 1);
    assert.deepEqual(await valuesOf(team), ["first", "second"]);
    // Turned away without having been done: sent again.
    let refuse = 1;
    served.meddle((request, forward) => {
      if (request.method !== "POST" || refuse-- <= 0) return forward(request);
      return Promise.resolve(Response.json({ error: "service_unavailable" }, { status: 503 }));
    });
    assert.equal(await team.write("third"), 2);
  });

  test("team client: a rotation that was interrupted anywhere is finished, once", async (world) => {
    await using served = serve(world);
    const [alice, bob] = [await newMember(world, served), await newMember(world, served)];
    const team = await TeamClient.create(alice, "Resumed");
    await team.grant(grantOf(bob));
    const later = () => TeamClient.open(alice, team.teamId);
    assert.equal(await later().resumeRotation(), undefined);

    const away = () => Promise.resolve(new Response("away", { status: 502 }));
    served.meddle((request, forward) => request.url.endsWith("/rotate") ? away() : forward(request));
    await assert.rejects(team.rotate());
    served.meddle(undefined);
    assert.equal(await later().resumeRotation(), 1);
    assert.equal(await later().resumeRotation(), undefined);

    let lost = false;
    served.meddle(async (request, forward) => {
      const response = await forward(request);
      if (!request.url.endsWith("/rotate") || lost) return response;
      lost = true;
      await response.body?.cancel();
      return new Response("lost", { status: 502 });
    });
    assert.equal(await team.rotate({ revoke: bob.memberId }), 2, "the second try hears that it has happened");
    served.meddle(undefined);
    await later().write("still readable");
    assert.deepEqual(await valuesOf(later()), ["still readable"]);
  });

  test("team client: a rotation that somebody else overtook is given up, and writers take the new key", async (world) => {
    await using served = serve(world);
    const [alice, bob] = [await newMember(world, served), await newMember(world, served)];
    const team = await TeamClient.create(alice, "Two admins");
    await team.grant(grantOf(bob, "admin"));
    const asBob = TeamClient.open(bob, team.teamId);
    await asBob.write("epoch 0");
    served.meddle(async (request, forward) => {
      if (request.url.endsWith("/rotate")) {
        served.meddle(undefined);
        await asBob.rotate({ publicKeys: { [alice.memberId]: alice.keys.publicKey } });
      }
      return await forward(request);
    });
    await assert.rejects(team.rotate(), ConflictError);
    assert.equal(await team.resumeRotation(), undefined);
    await team.write("epoch 1");
    assert.deepEqual(await valuesOf(asBob), ["epoch 0", "epoch 1"]);
    assert.equal(await team.rotate(), 2);
    await asBob.write("epoch 2");
    assert.deepEqual(await valuesOf(team), ["epoch 0", "epoch 1", "epoch 2"]);
  });

  test("team client: a rotation asks for the public keys that it does not know", async (world) => {
    await using served = serve(world);
    const [alice, bob] = [await newMember(world, served), await newMember(world, served)];
    const team = await TeamClient.create(alice, "Keys");
    await team.grant(grantOf(bob));
    const elsewhere = TeamClient.open({ ...alice, store: createMemoryStore() }, team.teamId);
    await assert.rejects(elsewhere.rotate(), (error: ConflictError) => {
      assert.deepEqual(error.details.missing, [bob.memberId]);
      return error.code === "missing_public_keys";
    });
    assert.equal(await elsewhere.rotate({ publicKeys: { [bob.memberId]: bob.keys.publicKey } }), 1);
  });

  test("team client: one entry that is no entry hides no other, and is never shown", async (world) => {
    await using served = serve(world);
    const alice = await newMember(world, served);
    const team = await TeamClient.create(alice, "Junk");
    await team.write("good");
    const path = `/teams/${team.teamId}/memories`;
    await world.request("POST", path, { token: alice.token as string, body: { ciphertext_b64: "AAAA" } });
    await team.write("also good");
    assert.deepEqual(await valuesOf(team), ["good", "decryption_failed", "also good"]);
  });

  test("team client: forgotten entries, an older key and a rewritten ledger raise the alarm", async (world) => {
    await using served = serve(world);
    const alice = await newMember(world, served);
    const team = await TeamClient.create(alice, "Alarm");
    await team.write("a");
    await valuesOf(team);
    const { export: ledger } = await team.verifyAudit();
    await team.rotate();
    const later = () => TeamClient.open(alice, team.teamId);
    served.meddle(spoil(/memories/, (page: object) => ({ ...page, memories: [] })));
    await assert.rejects(valuesOf(later()), RollbackError);
    const older = await wrapKeyRing(await newKeyRing(), alice.keys.publicKey);
    served.meddle(spoil(/grant/, () => ({ wrapped_dek: older, rotation_seq: 0 })));
    await assert.rejects(later().write("b"), RollbackError);
    const cut = { ...ledger, head_seq: -1, head_hash: "0".repeat(64), entries: [] };
    served.meddle(spoil<AuditExport>(/audit/, () => cut));
    await assert.rejects(later().verifyAudit(), (error: IntegrityError) => error.code === "audit_broken");
    served.meddle(undefined);
    assert.ok((await later().verifyAudit()).valid);
  });
});

Deno.test("a key ring is unwrapped by whom it was wrapped for, whole, and by nobody else", async () => {
  const [alice, bob] = [await generateMemberKeys(), await generateMemberKeys()];
  let ring = await newKeyRing();
  for (let i = 0; i < 3; i++) ring = await nextKeyRing(ring);
  const wrapped = await wrapKeyRing(ring, alice.publicKey);
  const unwrapped = await unwrapKeyRing(wrapped, alice);
  assert.deepEqual([unwrapped.epoch, [...unwrapped.keys.keys()]], [3, [3, 2, 1, 0]]);
  for (const [epoch, key] of ring.keys) {
    const [expected, actual] = [key, unwrapped.keys.get(epoch)!];
    assert.deepEqual(
      await crypto.subtle.exportKey("raw", actual),
      await crypto.subtle.exportKey("raw", expected),
    );
  }
  await assert.rejects(unwrapKeyRing(wrapped, bob), IntegrityError);
  const bytes = Uint8Array.fromBase64(wrapped);
  assert.equal(bytes[0], 1, "the version");
  for (let i = 0; i < bytes.length; i++) {
    const changed = bytes.slice();
    changed[i]! ^= 1;
    await assert.rejects(unwrapKeyRing(changed.toBase64(), alice), IntegrityError, `byte ${i}`);
  }
});

Deno.test("a key ring never outgrows what the service takes", async () => {
  const { publicKey } = await generateMemberKeys();
  let ring = await newKeyRing();
  for (let i = 0; i < 320; i++) ring = await nextKeyRing(ring);
  assert.deepEqual([ring.epoch, ring.keys.size, ring.keys.has(20)], [320, 300, false]);
  assert.ok((await wrapKeyRing(ring, publicKey)).length <= 16_384);
});

Deno.test("an entry cannot be moved to another team or epoch", async () => {
  const ring = await nextKeyRing(await newKeyRing());
  const team = crypto.randomUUID();
  const stored = {
    id: "1",
    seq: 0,
    author_id: "a",
    created_at: "",
    rotation_seq: 1,
    ciphertext_b64: (await sealMemory("x", team, ring)).toBase64(),
  };
  assert.equal((await openMemory(stored, team, ring)).value, "x");
  assert.ok((await openMemory(stored, crypto.randomUUID(), ring)).error);
  assert.ok((await openMemory({ ...stored, rotation_seq: 0 }, team, ring)).error);
});

Deno.test("fingerprints tell keys apart and do not depend on how PEM is wrapped", async () => {
  const { publicKey } = await generateMemberKeys();
  assert.match(fingerprint(publicKey), /^([0-9a-f]{8} ){7}[0-9a-f]{8}$/);
  const [, body] = /KEY-----\n([^-]+)\n-----END/.exec(publicKey)!;
  const oneLine = publicKey.replace(body!, body!.replaceAll("\n", ""));
  assert.equal(fingerprint(oneLine), fingerprint(publicKey));
  assert.notEqual(fingerprint((await generateMemberKeys()).publicKey), fingerprint(publicKey));
});
