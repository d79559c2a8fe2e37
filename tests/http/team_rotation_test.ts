/** Rotation: a new key for exactly those who stay, and from that moment nothing for whoever was removed. Spec 4.5. */

import assert from "node:assert/strict";
import { openMemoryRun } from "../../supabase/functions/v2-agent-state/flows/read_memories.ts";
import { onEveryBackend, onOneBackend, type World } from "../support/harness.ts";
import { newPerson, type Person } from "../support/people.ts";
import {
  actionsOf,
  assertRefused,
  grant,
  memoryBody,
  newGuest,
  newMember,
  newSubkey,
  newTeam,
  remove,
  rotate,
  rotateBody,
  send,
  subscribe,
  type Team,
  wrappedKey,
  write,
} from "../support/teams.ts";

onEveryBackend((test) => {
  test("POST /teams/:id/rotate answers 200, raises the epoch by one and re-wraps for everybody", async (world) => {
    const team = await newTeam(world);
    const [member, guest] = [await newMember(world, team, "read"), await newGuest(world, team)];
    for (const epoch of [1, 2]) {
      const body = rotateBody([team.owner, member], epoch === 1 ? {} : { reason: "laptop lost" });
      const { status, body: answer } = await send(
        world,
        team.owner,
        "POST",
        `/teams/${team.id}/rotate`,
        body,
      );
      assert.deepEqual([status, answer], [200, {
        team_id: team.id,
        rotation_seq: epoch,
        revoked: null,
        rewrapped: 2,
        reason: epoch === 1 ? "manual_rotation" : "laptop lost",
      }]);
      for (const [i, holder] of [team.owner, member].entries()) {
        const held = await send(world, holder, "GET", `/teams/${team.id}/grant`);
        const { wrapped_dek } = (body.grants as { wrapped_dek: string }[])[i]!;
        assert.deepEqual([held.body.rotation_seq, held.body.wrapped_dek], [epoch, wrapped_dek]);
      }
      assertRefused(await send(world, guest, "GET", `/teams/${team.id}/grant`), 403, "no_grant");
      assert.equal((await write(world, team, team.owner)).body.rotation_seq, epoch);
    }
    const { body } = await send(world, member, "GET", "/teams");
    assert.equal(body.teams[0].rotation_seq, 2);
  });

  test("whoever is removed has no grant, is no member any more, and their sub-keys are dead at once", async (world) => {
    const team = await newTeam(world);
    const [leaver, stayer] = [await newMember(world, team, "admin"), await newMember(world, team)];
    const [dead, alive] = [await newSubkey(world, team, leaver), await newSubkey(world, team, stayer)];
    const body = rotateBody([team.owner, stayer], { revoke_member_id: leaver.subject });
    const rotated = await send(world, team.owner, "POST", `/teams/${team.id}/rotate`, body);
    assert.deepEqual([rotated.status, rotated.body.revoked, rotated.body.rewrapped], [
      200,
      leaver.subject,
      2,
    ]);

    assertRefused(await send(world, leaver, "GET", `/teams/${team.id}/grant`), 403, "no_grant");
    for (const path of ["members", "memories", "sync-log", "audit", "audit/verify", "audit/export"]) {
      assertRefused(await send(world, leaver, "GET", `/teams/${team.id}/${path}`), 403, "not_a_team_member");
    }
    assertRefused(await write(world, team, leaver), 403, "not_a_team_member");
    assertRefused(await world.request("GET", "/metadata", { token: dead.token }), 401, "api_key_revoked");
    assert.equal((await world.request("GET", "/metadata", { token: alive.token })).status, 200);

    const { body: roster } = await send(world, stayer, "GET", `/teams/${team.id}/members`);
    const ids = roster.members.map(({ member_id }: Record<string, string>) => member_id);
    assert.deepEqual(ids, [team.owner.subject, stayer.subject]);
    const actions = await actionsOf(world, team);
    assert.deepEqual(actions.slice(-2), ["member.remove", "team.rotate"]);
  });

  test("whoever comes back gets a grant of the running epoch, and their old sub-keys stay dead", async (world) => {
    const team = await newTeam(world);
    const member = await newMember(world, team);
    const old = await newSubkey(world, team, member);
    await remove(world, team, member, [team.owner]);
    assert.equal((await grant(world, team, member, { role: "read" })).status, 201);
    const held = await send(world, member, "GET", `/teams/${team.id}/grant`);
    assert.deepEqual([held.status, held.body.rotation_seq], [200, 1]);
    assertRefused(await world.request("GET", "/metadata", { token: old.token }), 401, "api_key_revoked");
    assertRefused(await write(world, team, member), 403, "forbidden_role");
  });

  test("a rotation that leaves somebody out, or names a stranger, says whom and changes nothing", async (world) => {
    const team = await newTeam(world);
    const [member, guest] = [await newMember(world, team), await newGuest(world, team)];
    const stranger = await newPerson(world);
    const before = await stateOf(world, team);
    const cases: [Person[], Record<string, unknown>, string, Record<string, string[]>][] = [
      [[team.owner], {}, "incomplete_grants", { missing: [member.subject] }],
      [[], {}, "incomplete_grants", { missing: [member.subject, team.owner.subject].sort() }],
      [[team.owner, member, stranger], {}, "unknown_member", { unknown: [stranger.subject] }],
      [[team.owner, stranger], {}, "unknown_member", { unknown: [stranger.subject] }],
      [[team.owner, member, guest], {}, "unknown_member", { unknown: [guest.subject] }],
      [[team.owner, member], { revoke_member_id: member.subject }, "unknown_member", {
        unknown: [member.subject],
      }],
      [[team.owner, member], { revoke_member_id: stranger.subject }, "unknown_member", {
        unknown: [stranger.subject],
      }],
      [[], { revoke_member_id: member.subject }, "incomplete_grants", { missing: [team.owner.subject] }],
    ];
    for (const [stay, over, code, details] of cases) {
      const answer = await rotate(world, team, stay, over);
      const { request_id: _, ...body } = answer.body;
      assert.deepEqual([answer.status, body], [400, { error: code, ...details }]);
    }
    assert.deepEqual(await stateOf(world, team), before);
  });

  test("a rotation names nobody twice, and every wrapped key is checked", async (world) => {
    const team = await newTeam(world);
    const once = { member_id: team.owner.subject, wrapped_dek: wrappedKey() };
    const cases: [unknown[], string, number | undefined][] = [
      [[once, { ...once, wrapped_dek: wrappedKey() }], "invalid_field:grants", undefined],
      [
        Array.from({ length: 1001 }, (_, i) => ({ ...once, member_id: `m${i}` })),
        "invalid_field:grants",
        undefined,
      ],
      [[once, { member_id: "x" }], "missing_field:wrapped_dek", 1],
      [[{ wrapped_dek: "x" }], "missing_field:member_id", 0],
      [[{ ...once, wrapped_dek: "k".repeat(16_385) }], "invalid_field:wrapped_dek", 0],
    ];
    for (const [grants, code, index] of cases) {
      const answer = await send(world, team.owner, "POST", `/teams/${team.id}/rotate`, { grants });
      assertRefused(answer, 400, code);
      assert.equal(answer.body.index, index);
    }
    const huge = { grants: [{ ...once, wrapped_dek: "k".repeat(5 * 1024 * 1024) }] };
    assertRefused(
      await send(world, team.owner, "POST", `/teams/${team.id}/rotate`, huge),
      413,
      "body_too_large",
    );
    assert.deepEqual(await actionsOf(world, team), ["team.create"]);
  });

  test("the last admin cannot be removed, and with another one they can", async (world) => {
    const team = await newTeam(world);
    const member = await newMember(world, team);
    const alone = await rotate(world, team, [member], { revoke_member_id: team.owner.subject });
    assertRefused(alone, 409, "last_admin");
    const admin = await newMember(world, team, "admin");
    await remove(world, team, team.owner, [member, admin]);
    const { body } = await send(world, admin, "GET", `/teams/${team.id}/members`);
    assert.equal(body.members.length, 2);
  });

  test("what names an epoch that is over is 409 stale_rotation with the running one", async (world) => {
    const team = await newTeam(world);
    await rotate(world, team, [team.owner]);
    for (const rotation_seq of [0, 2, 2_000_000_000]) {
      const rotated = await rotate(world, team, [team.owner], { rotation_seq });
      const written = await write(world, team, team.owner, { rotation_seq });
      for (const answer of [rotated, written]) {
        assertRefused(answer, 409, "stale_rotation");
        assert.equal(answer.body.rotation_seq, 1);
      }
    }
    assert.equal((await write(world, team, team.owner, { rotation_seq: 1 })).body.seq, 0);
    assert.equal((await rotate(world, team, [team.owner], { rotation_seq: 1 })).body.rotation_seq, 2);
  });

  test("whoever removes the owner pays from then on; an owner who leaves passes it to another admin", async (world) => {
    const team = await newTeam(world);
    const [admin, third] = [await newMember(world, team, "admin"), await newMember(world, team)];
    assert.equal(await payerOf(world, team), team.owner.subject);
    await remove(world, { ...team, owner: admin }, team.owner, [admin, third]);
    assert.equal(await payerOf(world, team), admin.subject);

    assert.equal((await grant(world, { ...team, owner: admin }, third, { role: "admin" })).status, 201);
    await remove(world, { ...team, owner: admin }, admin, [third]);
    assert.equal(await payerOf(world, team), third.subject);
  });
});

onOneBackend((test) => {
  test("whoever is removed while they read gets no further piece", async (world) => {
    const team = await newTeam(world);
    const reader = await newMember(world, team, "read");
    for (let i = 0; i < 10; i++) {
      const body = memoryBody({}, new Uint8Array(200_000));
      assert.equal((await send(world, team.owner, "POST", `/teams/${team.id}/memories`, body)).status, 201);
    }
    const page = { since: -1, limit: 1000 };
    const run = await openMemoryRun(world.platform.db, reader, team.id, page);
    await remove(world, team, reader, [team.owner]);
    let read = 0;
    await assert.rejects(async () => {
      for await (const _ of run.entries) read++;
    }, { code: "not_a_team_member" });
    assert.ok(read < 10);
  });

  test("of rotations at once that name the epoch one wins, and the others are told of it", async (world) => {
    const team = await newTeam(world);
    const admin = await newMember(world, team, "admin");
    const answers = await Promise.all(Array.from({ length: 12 }, (_, i) => {
      const by = i % 2 === 0 ? team.owner : admin;
      return rotate(world, { ...team, owner: by }, [team.owner, admin], { rotation_seq: 0 });
    }));
    assert.deepEqual(answers.map(({ status }) => status).sort(), [200, ...Array(11).fill(409)]);
    assert.equal((await stateOf(world, team)).rotation_seq, 1);
  });

  test("rotations at once that name no epoch come one after another", async (world) => {
    const team = await newTeam(world);
    const answers = await Promise.all(Array.from({ length: 12 }, () => rotate(world, team, [team.owner])));
    const epochs = answers.map(({ body }) => body.rotation_seq).sort((a, b) => a - b);
    assert.deepEqual(epochs, Array.from({ length: 12 }, (_, i) => i + 1));
  });

  test("two admins who remove each other at once: one of them stays", async (world) => {
    for (let round = 0; round < 10; round++) {
      const team = await newTeam(world);
      const admin = await newMember(world, team, "admin");
      const [first, second] = await Promise.all([
        rotate(world, team, [team.owner], { revoke_member_id: admin.subject }),
        rotate(world, { ...team, owner: admin }, [admin], { revoke_member_id: team.owner.subject }),
      ]);
      assert.deepEqual([first.status, second.status].sort(), [200, 403]);
    }
  });

  test("memories written during rotations carry the epoch that ran, and none that its author named is another", async (world) => {
    const team = await newTeam(world);
    const member = await newMember(world, team);
    const answers = await Promise.all(Array.from({ length: 60 }, async (_, i) => {
      if (i % 6 === 0) return await rotate(world, team, [team.owner, member]);
      const rotation_seq = i % 3;
      const answer = await write(world, team, member, { rotation_seq });
      if (answer.status === 201) assert.equal(answer.body.rotation_seq, rotation_seq);
      else assertRefused(answer, 409, "stale_rotation");
      return answer;
    }));
    const { rows } = await world.sql.query(
      "select rotation_seq from app.team_memories where team_id = $1 order by seq",
      [team.id],
    );
    assert.equal(rows.length, answers.filter(({ status }) => status === 201).length);
    const epochs = rows.map(({ rotation_seq }) => rotation_seq);
    assert.deepEqual(epochs, epochs.toSorted((a, b) => a - b));
    assert.equal((await stateOf(world, team)).rotation_seq, 10);
  });

  test("somebody's first request and a grant for them at the same time both end well", async (world) => {
    const team = await newTeam(world);
    await subscribe(world, team.owner, "growth", { seats: 100 });
    for (let round = 0; round < 20; round++) {
      const newcomer = await newPerson(world);
      const [granted, ...others] = await Promise.all([
        grant(world, team, newcomer),
        ...Array.from({ length: 3 }, () => write(world, team, newcomer)),
      ]);
      assert.equal(granted!.status, 201, granted!.text);
      for (const { status, text } of others) assert.ok(status === 201 || status === 403, text);
    }
    const trouble = world.logs.filter(({ event }) => event === "database_error");
    assert.deepEqual(trouble, []);
    const { rows } = await world.sql.query(
      "select deadlocks::int from pg_stat_database where datname = current_database()",
    );
    assert.equal(rows[0].deadlocks, 0);
  });
});

/** Everything that a rotation may change. */
async function stateOf(world: World, { id }: Team) {
  const { rows } = await world.sql.query(
    `select t.rotation_seq, t.audit_seq, t.account_id,
            (select jsonb_agg(to_jsonb(g) order by g.account_id) from app.team_grants g where g.team_id = t.id) as grants,
            (select jsonb_agg(to_jsonb(m) order by m.account_id) from app.team_members m where m.team_id = t.id) as members
       from app.teams t where t.id = $1`,
    [id],
  );
  return rows[0];
}

async function payerOf(world: World, { id }: Team): Promise<string> {
  const { rows } = await world.sql.query(
    "select a.subject from app.teams t join app.accounts a on a.id = t.account_id where t.id = $1",
    [id],
  );
  return rows[0].subject;
}
