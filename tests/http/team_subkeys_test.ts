/** Sub-keys: a team's agents act as the member they are bound to, for the team, and no longer than that. Spec 4.5. */

import assert from "node:assert/strict";
import { chunk, replicateBody, sha256Hex, snapshotBody } from "../support/factories.ts";
import { onEveryBackend, onOneBackend, type World } from "../support/harness.ts";
import { newPerson, type Person } from "../support/people.ts";
import {
  actionsOf,
  assertRefused,
  grant,
  newGuest,
  newMember,
  newSubkey,
  newTeam,
  remove,
  send,
  subscribe,
  type Team,
} from "../support/teams.ts";

/** Every route that takes a sub-key; writes first. */
const ROUTES: { method: string; path: string; body?: () => unknown }[] = [
  { method: "POST", path: "/snapshot", body: () => snapshotBody() },
  { method: "POST", path: "/replicate", body: () => replicateBody(chunk(0)) },
  { method: "GET", path: "/snapshot/agent/latest" },
  { method: "GET", path: "/snapshot/agent/0" },
  { method: "GET", path: "/snapshot/agent/lineage" },
  { method: "GET", path: "/head" },
  { method: "GET", path: "/replay?since=-1" },
  { method: "GET", path: "/metadata" },
  { method: "GET", path: "/envelopes" },
];
const WRITES = 2;

onEveryBackend((test) => {
  test("POST /teams/:id/subkeys answers 201 with the record and the secret, which is kept nowhere", async (world) => {
    const team = await newTeam(world);
    const member = await newMember(world, team, "write");
    const body = { name: "🦉".repeat(128) };
    const made = await send(world, member, "POST", `/teams/${team.id}/subkeys`, body);
    assert.equal(made.status, 201);
    const { id, created_at, masked_key, raw_secret } = made.body;
    assert.match(id, /^[0-9a-f-]{36}$/);
    assert.match(created_at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    assert.match(raw_secret, /^sov_live_[0-9A-Za-z]{20,}$/);
    assert.ok(masked_key.startsWith("sov_live_") && masked_key.length < raw_secret.length);
    assert.ok(!masked_key.includes(raw_secret.slice(9, 20)));
    assert.deepEqual(made.body, {
      id,
      name: body.name,
      team_id: team.id,
      bound_member_id: member.subject,
      masked_key,
      raw_secret,
      created_at,
    });
    const { rows } = await world.sql.query(
      "select key_hash, to_jsonb(k)::text as row from app.api_keys k where id = $1",
      [id],
    );
    assert.equal(rows[0].key_hash.toString("hex"), sha256Hex(raw_secret));
    assert.ok(!rows[0].row.includes(raw_secret));
    const listed = await send(world, member, "GET", "/api-keys");
    assert.ok(listed.body.some((key: { id: string }) => key.id === id) && !listed.text.includes(raw_secret));
    assert.deepEqual((await actionsOf(world, team)).at(-1), "subkey.create");
  });

  test("a name has 1 to 128 characters, and whatever is missing or wrong is named", async (world) => {
    const team = await newTeam(world);
    const post = (body: unknown) => send(world, team.owner, "POST", `/teams/${team.id}/subkeys`, body);
    assertRefused(await post({}), 400, "missing_field:name");
    for (const name of ["", "n".repeat(129), "a\0b", 7, null]) {
      assertRefused(await post({ name }), 400, "invalid_field:name");
    }
    for (const bound_member_id of ["", "a\0b", 7]) {
      assertRefused(await post({ name: "x", bound_member_id }), 400, "invalid_field:bound_member_id");
    }
    assert.equal((await post({ name: "x", bound_member_id: null })).status, 201);
  });

  test("a member binds a key to themselves, an admin to anybody who holds a grant", async (world) => {
    const team = await newTeam(world);
    await subscribe(world, team.owner, "growth");
    const [member, reader] = [await newMember(world, team), await newMember(world, team, "read")];
    const [guest, stranger] = [await newGuest(world, team), await newPerson(world)];
    const bind = (by: Person, bound: Person) =>
      send(world, by, "POST", `/teams/${team.id}/subkeys`, { name: "x", bound_member_id: bound.subject });
    assert.equal((await bind(member, member)).body.bound_member_id, member.subject);
    assert.equal((await bind(team.owner, reader)).body.bound_member_id, reader.subject);
    for (const other of [team.owner, reader, stranger]) {
      assertRefused(await bind(member, other), 403, "forbidden_role");
    }
    assertRefused(await bind(reader, reader), 403, "forbidden_role");
    for (const keyless of [guest, stranger]) {
      assertRefused(await bind(team.owner, keyless), 403, "no_grant");
    }
    assertRefused(await bind(guest, guest), 403, "no_grant");
  });

  test("a sub-key works on every snapshot, replication and Layer-A route, and on no session route", async (world) => {
    const team = await newPaidTeam(world);
    const { token } = await newSubkey(world, team, await newMember(world, team));
    for (const { method, path, body } of ROUTES) {
      const answer = await world.request(method, path, { token, body: body?.() });
      assert.equal(answer.status, 200, `${method} ${path}: ${answer.text}`);
    }
    assertRefused(await world.request("GET", "/teams", { token }), 401, "session_jwt_required");
  });

  test("snapshots of a sub-key are the team's: every sub-key of it sees them, nobody's own key does", async (world) => {
    const team = await newPaidTeam(world);
    const [first, second] = [await newMember(world, team), await newMember(world, team, "read")];
    const [writer, reader] = [
      await newSubkey(world, team, first),
      await newSubkey(world, team, second, team.owner),
    ];
    await world.request("POST", "/snapshot", { token: writer.token, body: snapshotBody() });
    const seen = await world.request("GET", "/snapshot/agent/latest", { token: reader.token });
    assert.deepEqual([seen.status, seen.body.receipt.sequence_number], [200, 0]);

    const own = await send(world, first, "POST", "/api-keys", { name: "own" });
    const other = await newPaidTeam(world);
    for (const token of [own.body.raw_secret, (await newSubkey(world, other, other.owner)).token]) {
      assertRefused(
        await world.request("GET", "/snapshot/agent/latest", { token }),
        404,
        "no_snapshots_for_agent",
      );
    }
  });

  test("each member has one log in the team, whichever of their sub-keys writes it", async (world) => {
    const team = await newPaidTeam(world);
    const [first, second] = [await newMember(world, team), await newMember(world, team)];
    const [one, two] = [await newSubkey(world, team, first), await newSubkey(world, team, first)];
    const other = await newSubkey(world, team, second);
    const replicate = (token: string, sequence: number) =>
      world.request("POST", "/replicate", { token, body: replicateBody(chunk(sequence)) });
    assert.equal((await replicate(one.token, 0)).status, 200);
    assert.equal((await replicate(two.token, 1)).body.sequence_number, 1);
    assertRefused(await world.request("GET", "/head", { token: other.token }), 404, "no_replication_entries");
    assert.equal((await replicate(other.token, 0)).status, 200);
    const chunks = async (token: string) =>
      (await world.request("GET", "/replay?since=-1", { token })).body.chunks.length;
    assert.deepEqual([await chunks(one.token), await chunks(other.token)], [2, 1]);

    // The same person's own log, and their log in another team, are others.
    const own = await send(world, first, "POST", "/api-keys", { name: "own" });
    const elsewhere = await newTeam(world);
    assert.equal((await grant(world, elsewhere, first)).status, 201);
    for (const token of [own.body.raw_secret, (await newSubkey(world, elsewhere, first)).token]) {
      assertRefused(await world.request("GET", "/head", { token }), 404, "no_replication_entries");
    }
  });

  test("a sub-key charges the account that owns the team, and stops when that has nothing left", async (world) => {
    const team = await newPaidTeam(world, 90);
    const member = await newMember(world, team);
    await giveCredits(world, member, 1_000);
    const { token } = await newSubkey(world, team, member);
    const send = (sequence: number) =>
      world.request("POST", "/replicate", {
        token,
        body: replicateBody(chunk(sequence, new Uint8Array(1000))),
      });
    assert.deepEqual([(await send(0)).status, (await send(1)).status], [200, 200]);
    assertRefused(await send(2), 402, "insufficient_credits");
    assert.deepEqual([await creditsOf(world, team.owner), await creditsOf(world, member)], [0, 1_000]);
  });

  test("a sub-key acts in the role that its member has at that moment", async (world) => {
    const team = await newPaidTeam(world);
    const member = await newMember(world, team, "write");
    const { token } = await newSubkey(world, team, member);
    for (const { method, path, body } of ROUTES.slice(0, WRITES)) {
      assert.equal((await world.request(method, path, { token, body: body?.() })).status, 200);
    }
    await grant(world, team, member, { role: "read" });
    for (const [i, { method, path, body }] of ROUTES.entries()) {
      const answer = await world.request(method, path, { token, body: body?.() });
      if (i < WRITES) assertRefused(answer, 403, "forbidden_role");
      else assert.equal(answer.status, 200, path);
    }
    await grant(world, team, member, { role: "admin" });
    const again = await world.request("POST", "/replicate", { token, body: replicateBody(chunk(1)) });
    assert.equal(again.status, 200);
  });

  test("a sub-key is revoked by its member or an admin, once and for good", async (world) => {
    const team = await newPaidTeam(world);
    const [member, other] = [await newMember(world, team), await newMember(world, team)];
    const keys = [await newSubkey(world, team, member), await newSubkey(world, team, member)];
    const revoke = (by: Person, id: string) => send(world, by, "DELETE", `/teams/${team.id}/subkeys/${id}`);
    assertRefused(await revoke(other, keys[0]!.id), 403, "forbidden_role");
    assertRefused(await revoke(await newPerson(world), keys[0]!.id), 403, "not_a_team_member");
    for (const id of [crypto.randomUUID(), "x", "%00"]) {
      assertRefused(await revoke(team.owner, id), 404, "api_key_not_found");
    }
    const own = await send(world, team.owner, "POST", "/api-keys", { name: "own" });
    assertRefused(await revoke(team.owner, own.body.id), 404, "api_key_not_found");

    for (const [i, by] of [member, team.owner].entries()) {
      const { id, token } = keys[i]!;
      const revoked = await revoke(by, id);
      assert.equal(revoked.status, 200);
      const { revoked_at } = revoked.body;
      assert.match(revoked_at, /^\d{4}-\d\d-\d\dT/);
      assert.deepEqual(revoked.body, { id, revoked_at, message: "api_key_revoked" });
      assert.deepEqual((await revoke(by, id)).body, revoked.body);
      for (const { method, path, body } of ROUTES) {
        const answer = await world.request(method, path, { token, body: body?.() });
        assertRefused(answer, 401, "api_key_revoked");
      }
    }
    assert.equal(await revocationsIn(world, team), 2);
  });

  test("a member revokes their sub-key through their own keys too, and the team's ledger has it", async (world) => {
    const team = await newTeam(world);
    const [member, other] = [await newMember(world, team), await newMember(world, team, "admin")];
    const { id, token } = await newSubkey(world, team, member);
    assertRefused(await send(world, other, "DELETE", `/api-keys/${id}`), 404, "api_key_not_found");
    for (const _ of [1, 2]) {
      const revoked = await send(world, member, "DELETE", `/api-keys/${id}`);
      assert.deepEqual([revoked.status, revoked.body.message], [200, "api_key_revoked"]);
    }
    assertRefused(await world.request("GET", "/head", { token }), 401, "api_key_revoked");
    assert.equal(await revocationsIn(world, team), 1);
  });

  test("a sub-key dies with the membership and cannot be revoked again by whoever was removed", async (world) => {
    const team = await newPaidTeam(world);
    const [member, stayer] = [await newMember(world, team), await newMember(world, team)];
    const { id, token } = await newSubkey(world, team, member);
    await world.request("POST", "/snapshot", { token, body: snapshotBody() });
    await remove(world, team, member, [team.owner, stayer]);
    for (const { method, path, body } of ROUTES) {
      assertRefused(await world.request(method, path, { token, body: body?.() }), 401, "api_key_revoked");
    }
    const path = `/teams/${team.id}/subkeys/${id}`;
    assertRefused(await send(world, member, "DELETE", path), 403, "not_a_team_member");
    // What it stored stays with the team.
    const other = await newSubkey(world, team, stayer);
    assert.equal((await world.request("GET", "/snapshot/agent/latest", { token: other.token })).status, 200);
  });
});

onOneBackend((test) => {
  test("a sub-key that is revoked many times at once has one entry in the ledger", async (world) => {
    const team = await newTeam(world);
    const { id } = await newSubkey(world, team, team.owner);
    const answers = await Promise.all(Array.from({ length: 12 }, (_, i) => {
      const path = i % 2 === 0 ? `/teams/${team.id}/subkeys/${id}` : `/api-keys/${id}`;
      return send(world, team.owner, "DELETE", path);
    }));
    assert.deepEqual(answers.map(({ status }) => status), Array(12).fill(200));
    assert.equal(new Set(answers.map(({ body }) => body.revoked_at)).size, 1);
    assert.equal(await revocationsIn(world, team), 1);
  });

  test("a sub-key and the removal of its member at once: the key never outlives the membership", async (world) => {
    for (let round = 0; round < 10; round++) {
      const team = await newTeam(world);
      const member = await newMember(world, team);
      const [made] = await Promise.all([
        send(world, member, "POST", `/teams/${team.id}/subkeys`, { name: "x" }),
        remove(world, team, member, [team.owner]),
      ]);
      if (made.status === 201) {
        const answer = await world.request("GET", "/metadata", { token: made.body.raw_secret });
        assertRefused(answer, 401, "api_key_revoked");
      } else assertRefused(made, 403, "not_a_team_member");
    }
  });
});

/** A team whose owner has credits (milli-cents). */
async function newPaidTeam(world: World, creditsMilli = 1_000_000_000): Promise<Team> {
  const team = await newTeam(world);
  await giveCredits(world, team.owner, creditsMilli);
  return team;
}

async function giveCredits(world: World, { subject }: Person, amount: number): Promise<void> {
  await world.platform.db.call("grant_credits", {
    p_subject: subject,
    p_amount_milli: amount,
    p_actor: "test",
    p_note: "",
    p_reference: crypto.randomUUID(),
  });
}

async function creditsOf(world: World, { subject }: Person): Promise<number> {
  const { rows } = await world.sql.query(
    "select credits_milli::int from app.accounts where subject = $1",
    [subject],
  );
  return rows[0].credits_milli;
}

async function revocationsIn(world: World, team: Team): Promise<number> {
  return (await actionsOf(world, team)).filter((action) => action === "subkey.revoke").length;
}
