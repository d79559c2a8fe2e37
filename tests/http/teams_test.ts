/** Teams, grants, members, memories and the sync log: what each route takes, answers and refuses. Spec 4.5. */

import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { randomBytes } from "node:crypto";
import { onEveryBackend, type World } from "../support/harness.ts";
import { newPerson } from "../support/people.ts";
import {
  actionsOf,
  assertRefused,
  grant,
  grantBody,
  memoryBody,
  newGuest,
  newMember,
  newTeam,
  PUBLIC_KEY,
  remove,
  rotateBody,
  send,
  type Team,
  teamBody,
  write,
} from "../support/teams.ts";

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
const NOT_PEM = ["", "x", "-----BEGIN PUBLIC KEY-----", PUBLIC_KEY.replace("END", "ENDE"), 7, null];

/** For each route that takes a body: its required fields, and values that a field must not have. */
const BODIES: {
  path: (team: Team) => string;
  good: (team: Team) => Record<string, unknown>;
  required: string[];
  wrong: Record<string, unknown[]>;
}[] = [
  {
    path: () => "/teams",
    good: () => teamBody(),
    required: ["name", "owner_pubkey", "owner_wrapped_dek"],
    wrong: {
      name: ["", "n".repeat(129), "🦉".repeat(129), "a\0b", "\ud800", 7, null, ["x"]],
      owner_pubkey: NOT_PEM,
      owner_wrapped_dek: ["", "a\0b", 7, null, "k".repeat(16_385)],
    },
  },
  {
    path: (team) => `/teams/${team.id}/grants`,
    good: (team) => grantBody(team.owner, { role: "admin" }),
    required: ["member_id", "member_pubkey", "wrapped_dek", "role"],
    wrong: {
      member_id: ["", "a\0b", 7, null],
      member_pubkey: NOT_PEM,
      wrapped_dek: ["", 7, null],
      role: ["owner", "Admin", "", 7, null],
      rotation_seq: [-1, 1.5, "0"],
    },
  },
  {
    path: (team) => `/teams/${team.id}/rotate`,
    good: (team) => rotateBody([team.owner]),
    required: ["grants"],
    wrong: {
      grants: ["x", null, 7, {}],
      reason: ["", "r".repeat(257), 7],
      revoke_member_id: ["", 7],
      rotation_seq: [-1, 1.5, "0"],
    },
  },
  {
    path: (team) => `/teams/${team.id}/memories`,
    good: () => memoryBody(),
    required: ["ciphertext_b64"],
    wrong: {
      ciphertext_b64: ["", "!", "YQ", "YQ=", "YR==", "a b=", "-_==", "YWJj\n", 7, null],
      agent_key: ["", "a\0b", "k".repeat(257), 7],
      rotation_seq: [-1, 1.5, "0"],
    },
  },
];

onEveryBackend((test) => {
  test("POST /teams answers 201 with the team, whose maker is admin and holds its first grant", async (world) => {
    const owner = await newPerson(world);
    const body = teamBody({ name: "🦉".repeat(128) });
    const { status, body: team } = await send(world, owner, "POST", "/teams", body);
    assert.equal(status, 201);
    assert.match(team.id, UUID);
    assert.match(team.created_at, TIME);
    const { id, created_at } = team;
    assert.deepEqual(team, { id, name: body.name, role: "admin", rotation_seq: 0, created_at });

    const grant = await send(world, owner, "GET", `/teams/${id}/grant`);
    assert.deepEqual([grant.status, grant.body], [200, {
      team_id: id,
      wrapped_dek: body.owner_wrapped_dek,
      member_pubkey: PUBLIC_KEY,
      rotation_seq: 0,
    }]);
    const members = await send(world, owner, "GET", `/teams/${id}/members`);
    assert.match(members.body.members[0].created_at, TIME);
    const member = { member_id: owner.subject, role: "admin", status: "active", has_grant: true };
    assert.deepEqual([members.status, { ...members.body.members[0], created_at: undefined }], [
      200,
      { ...member, created_at: undefined },
    ]);
    assert.deepEqual(Object.keys(members.body).sort(), ["members", "team_id"]);
    assert.equal(members.body.members.length, 1);
  });

  test("GET /teams lists the caller's active memberships only, oldest first, in their own role", async (world) => {
    const person = await newPerson(world);
    assert.deepEqual((await send(world, person, "GET", "/teams")).body, { teams: [] });
    const [own, other, left] = [await newTeam(world, person), await newTeam(world), await newTeam(world)];
    await grant(world, other, person, { role: "read" });
    await grant(world, left, person);
    await remove(world, left, person, [left.owner]);
    const { status, body } = await send(world, person, "GET", "/teams");
    assert.equal(status, 200);
    assert.deepEqual(
      body.teams.map(({ id, role }: Record<string, string>) => [id, role]),
      [[own.id, "admin"], [other.id, "read"]],
    );
    assert.deepEqual(Object.keys(body.teams[0]).sort(), ["created_at", "id", "name", "role", "rotation_seq"]);
  });

  test("POST /teams/:id/grants answers 201 with exactly the member's id and role, and makes them a member", async (world) => {
    const team = await newTeam(world);
    const member = await newPerson(world);
    const body = grantBody(member, { role: "read" });
    const granted = await send(world, team.owner, "POST", `/teams/${team.id}/grants`, body);
    assert.deepEqual([granted.status, granted.body], [201, {
      team_id: team.id,
      member_id: member.subject,
      role: "read",
    }]);
    const held = await send(world, member, "GET", `/teams/${team.id}/grant`);
    assert.equal(held.body.wrapped_dek, body.wrapped_dek);
    assert.deepEqual(await actionsOf(world, team), ["team.create", "member.add"]);
  });

  test("a grant to somebody who is a member already re-wraps their key and may change their role", async (world) => {
    const team = await newTeam(world);
    const [member, guest] = [await newMember(world, team, "write"), await newGuest(world, team, "write")];
    for (const each of [member, guest]) {
      const body = grantBody(each, { role: "read" });
      assert.equal((await send(world, team.owner, "POST", `/teams/${team.id}/grants`, body)).status, 201);
      const held = await send(world, each, "GET", `/teams/${team.id}/grant`);
      assert.equal(held.body.wrapped_dek, body.wrapped_dek);
      assertRefused(await write(world, team, each), 403, "forbidden_role");
    }
    const { body } = await send(world, team.owner, "GET", `/teams/${team.id}/members`);
    assert.deepEqual(
      body.members.map(({ role, has_grant }: Record<string, unknown>) => [role, has_grant]),
      [["admin", true], ["read", true], ["read", true]],
    );
    const added = ["team.create", "member.add", "invitation.create", "invitation.accept"];
    assert.deepEqual(await actionsOf(world, team), [...added, "grant.update", "grant.update"]);
  });

  test("the last admin cannot be given a lesser role", async (world) => {
    const team = await newTeam(world);
    assertRefused(await grant(world, team, team.owner, { role: "write" }), 409, "last_admin");
    await newMember(world, team, "admin");
    assert.equal((await grant(world, team, team.owner, { role: "write" })).status, 201);
    assertRefused(await grant(world, team, team.owner, { role: "admin" }), 403, "forbidden_role");
  });

  test("a grant of an epoch that is over is 409 stale_rotation with the running one", async (world) => {
    const team = await newTeam(world);
    await send(world, team.owner, "POST", `/teams/${team.id}/rotate`, rotateBody([team.owner]));
    const member = await newPerson(world);
    for (const rotation_seq of [0, 2]) {
      const stale = await grant(world, team, member, { rotation_seq });
      assertRefused(stale, 409, "stale_rotation");
      assert.equal(stale.body.rotation_seq, 1);
    }
    assertRefused(await send(world, member, "GET", `/teams/${team.id}/grant`), 403, "not_a_team_member");
    assert.equal((await grant(world, team, member, { rotation_seq: 1 })).status, 201);
  });

  test("the roster never shows a key, wrapped or not", async (world) => {
    const team = await newTeam(world);
    const reader = await newMember(world, team, "read");
    const { status, body, text } = await send(world, reader, "GET", `/teams/${team.id}/members`);
    assert.equal(status, 200);
    for (const member of body.members) {
      assert.deepEqual(Object.keys(member).sort(), [
        "created_at",
        "has_grant",
        "member_id",
        "role",
        "status",
      ]);
    }
    assert.ok(!text.includes("BEGIN"));
  });

  test("memories are numbered from 0, come back byte for byte, and carry author, epoch and size", async (world) => {
    const team = await newTeam(world);
    const member = await newMember(world, team, "write");
    // More than is fetched at a time.
    const sent = Array.from({ length: 8 }, (_, i) => randomBytes(i === 0 ? 1 : 200_000 + i));
    for (const [i, bytes] of sent.entries()) {
      const by = i % 2 === 0 ? team.owner : member;
      const path = `/teams/${team.id}/memories`;
      const written = await send(world, by, "POST", path, memoryBody({ rotation_seq: 0 }, bytes));
      assert.equal(written.status, 201, written.text);
      assert.deepEqual(Object.keys(written.body).sort(), ["created_at", "id", "rotation_seq", "seq"]);
      assert.deepEqual([written.body.seq, written.body.rotation_seq], [i, 0]);
      assert.match(written.body.id, UUID);
    }
    const { status, body } = await send(world, member, "GET", `/teams/${team.id}/memories`);
    assert.equal(status, 200);
    assert.deepEqual(Object.keys(body).sort(), ["has_more", "memories", "team_id"]);
    assert.deepEqual([body.team_id, body.has_more], [team.id, false]);
    for (const [i, memory] of body.memories.entries()) {
      const { id, created_at } = memory;
      assert.match(created_at, TIME);
      assert.deepEqual(memory, {
        id,
        seq: i,
        rotation_seq: 0,
        ciphertext_b64: Buffer.from(sent[i]!).toString("base64"),
        author_id: (i % 2 === 0 ? team.owner : member).subject,
        byte_size: sent[i]!.length,
        created_at,
      });
    }
    assert.equal(body.memories.length, sent.length);
  });

  test("memories are read in pages that fit together", async (world) => {
    const team = await newTeam(world);
    for (let i = 0; i < 7; i++) await write(world, team, team.owner);
    const pages: [string, number[], boolean][] = [
      ["", [0, 1, 2, 3, 4, 5, 6], false],
      ["?since=-1&limit=7", [0, 1, 2, 3, 4, 5, 6], false],
      ["?limit=3", [0, 1, 2], true],
      ["?since=2&limit=3", [3, 4, 5], true],
      ["?since=5&limit=3", [6], false],
      ["?since=6", [], false],
      ["?since=900&limit=1", [], false],
      ["?since=0&limit=1000", [1, 2, 3, 4, 5, 6], false],
    ];
    for (const [query, seqs, hasMore] of pages) {
      const { body } = await send(world, team.owner, "GET", `/teams/${team.id}/memories${query}`);
      assert.deepEqual(body.memories.map(({ seq }: { seq: number }) => seq), seqs, query);
      assert.equal(body.has_more, hasMore, query);
    }
    for (
      const wrong of ["since=x", "since=-2", "since=1.5", "limit=0", "limit=1001", "limit=-1", "limit=x"]
    ) {
      const answer = await send(world, team.owner, "GET", `/teams/${team.id}/memories?${wrong}`);
      assertRefused(answer, 400, `invalid_field:${wrong.split("=")[0]}`);
    }
  });

  test("32 writers at once number their memories without a gap", async (world) => {
    const team = await newTeam(world);
    const member = await newMember(world, team);
    const answers = await Promise.all(
      Array.from({ length: 32 }, (_, i) => write(world, team, i % 2 === 0 ? team.owner : member)),
    );
    const seqs = answers.map(({ body }) => body.seq).sort((a, b) => a - b);
    assert.deepEqual(seqs, Array.from({ length: 32 }, (_, i) => i));
  });

  test("a memory has exactly 262144 bytes at most; one more is 413 chunk_too_large", async (world) => {
    const team = await newTeam(world);
    const path = `/teams/${team.id}/memories`;
    const most = await send(world, team.owner, "POST", path, memoryBody({}, randomBytes(262_144)));
    assert.equal(most.status, 201);
    for (const size of [262_145, 300_000, 600_000]) {
      const answer = await send(world, team.owner, "POST", path, memoryBody({}, new Uint8Array(size)));
      assertRefused(answer, 413, "chunk_too_large");
    }
    const { body } = await send(world, team.owner, "GET", path);
    assert.deepEqual(body.memories.map(({ byte_size }: { byte_size: number }) => byte_size), [262_144]);
  });

  test("a member without a grant may read memories but has no key to write with", async (world) => {
    const team = await newTeam(world);
    const guest = await newGuest(world, team, "write");
    assertRefused(await write(world, team, guest), 403, "no_grant");
    assertRefused(await send(world, guest, "GET", `/teams/${team.id}/grant`), 403, "no_grant");
    assert.equal((await send(world, guest, "GET", `/teams/${team.id}/memories`)).status, 200);
  });

  test("the sync log says who wrote how much and how long it took, newest first, and shows 200", async (world) => {
    const team = await newTeam(world);
    await write(world, team, team.owner);
    await write(world, team, team.owner, { agent_key: "🦉 agent" });
    const { status, body } = await send(world, team.owner, "GET", `/teams/${team.id}/sync-log`);
    assert.equal(status, 200);
    assert.deepEqual(Object.keys(body).sort(), ["entries", "team_id"]);
    for (const [i, entry] of body.entries.entries()) {
      const { synced_at, latency_ms } = entry;
      assert.match(synced_at, TIME);
      assert.ok(Number.isInteger(latency_ms) && latency_ms >= 0 && latency_ms < 60_000);
      const agent_key = i === 0 ? "🦉 agent" : team.owner.subject;
      assert.deepEqual(entry, { agent_key, op: "write", bytes: 64, latency_ms, synced_at });
    }
    await world.sql.query(
      `insert into app.team_sync_log (team_id, agent_key, op, bytes, latency_ms)
       select $1, i::text, 'write', 1, 1 from generate_series(1, 250) i`,
      [team.id],
    );
    const newest = (await send(world, team.owner, "GET", `/teams/${team.id}/sync-log`)).body.entries;
    const keys = newest.map(({ agent_key }: { agent_key: string }) => agent_key);
    assert.deepEqual(keys, Array.from({ length: 200 }, (_, i) => String(250 - i)));
  });

  test("whatever is missing or wrong in a body is named, and nothing happens", async (world) => {
    const team = await newTeam(world);
    for (const { path, good, required, wrong } of BODIES) {
      const post = (body: unknown) => send(world, team.owner, "POST", path(team), body);
      for (const field of required) {
        assertRefused(await post({ ...good(team), [field]: undefined }), 400, `missing_field:${field}`);
      }
      for (const [field, values] of Object.entries(wrong)) {
        for (const value of values) {
          const answer = await post({ ...good(team), [field]: value });
          assertRefused(answer, 400, `invalid_field:${field}`, `${path(team)} ${JSON.stringify(value)}`);
        }
      }
      for (const junk of ["{", "[]", "null", ""]) assertRefused(await post(junk), 400, "invalid_json");
    }
    assert.deepEqual(await actionsOf(world, team), ["team.create"]);
    assert.deepEqual(await countTeamsOf(world, team), 1);
  });
});

async function countTeamsOf(world: World, { owner }: Team): Promise<number> {
  return (await send(world, owner, "GET", "/teams")).body.teams.length;
}
