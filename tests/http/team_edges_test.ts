/** Corners of teams in which a key, a seat or a memory could get lost. Spec 4.5; design section 5. */

import assert from "node:assert/strict";
import { onOneBackend } from "../support/harness.ts";
import { newPerson } from "../support/people.ts";
import {
  actionsOf,
  assertRefused,
  grant,
  invite,
  newGuest,
  newMember,
  newTeam,
  rotate,
  rotateBody,
  send,
  write,
} from "../support/teams.ts";

onOneBackend((test) => {
  test("POST /teams/:id/rotate answers 409 last_admin to an admin without a grant who would remove the last that has one", async (world) => {
    const team = await newTeam(world);
    const guest = await newGuest(world, team, "admin");
    const body = rotateBody([], { revoke_member_id: team.owner.subject });
    const answer = await send(world, guest, "POST", `/teams/${team.id}/rotate`, body);
    assert.deepEqual([answer.status, answer.body.error], [409, "last_admin"]);
    assert.equal((await send(world, team.owner, "GET", `/teams/${team.id}/grant`)).status, 200);
  });

  test("POST /teams/:id/grants takes over the seat of an open invitation to the same person", async (world) => {
    const team = await newTeam(world);
    const guest = await newPerson(world);
    await send(world, guest, "GET", "/teams"); // signs in once
    assert.equal((await invite(world, team, guest.email)).status, 201);
    await newMember(world, team, "write"); // the third and last seat of a free team
    assert.equal((await grant(world, team, guest)).status, 201);
    const members = await send(world, team.owner, "GET", `/teams/${team.id}/members`);
    assert.equal(members.body.members.length, 3);
    const { rows } = await world.sql.query("select 1 from app.team_invitations where team_id = $1", [
      team.id,
    ]);
    assert.equal(rows.length, 0);
  });

  test("POST /teams/:id/grants with the same grant again changes nothing and records nothing", async (world) => {
    const team = await newTeam(world);
    const member = await newPerson(world);
    const same = { wrapped_dek: "the same wrapped key" };
    assert.equal((await grant(world, team, member, same)).status, 201);
    const before = await send(world, team.owner, "GET", `/teams/${team.id}/audit`);
    assert.equal((await grant(world, team, member, same)).status, 201);
    const after = await send(world, team.owner, "GET", `/teams/${team.id}/audit`);
    assert.equal(after.body.entries.length, before.body.entries.length);
  });

  test("an epoch that no team can reach is 400 invalid_field:rotation_seq, and changes nothing", async (world) => {
    const team = await newTeam(world);
    for (const rotation_seq of [2_147_483_648, Number.MAX_SAFE_INTEGER]) {
      for (
        const answer of [
          await grant(world, team, await newPerson(world), { rotation_seq }),
          await rotate(world, team, [team.owner], { rotation_seq }),
          await write(world, team, team.owner, { rotation_seq }),
        ]
      ) assertRefused(answer, 400, "invalid_field:rotation_seq");
    }
    assertRefused(
      await rotate(world, team, [team.owner], { rotation_seq: 2_147_483_647 }),
      409,
      "stale_rotation",
    );
    assert.deepEqual(await actionsOf(world, team), ["team.create"]);
  });

  test("GET /teams/:id/memories keeps what somebody wrote whose account was removed, without a name", async (world) => {
    const team = await newTeam(world);
    const author = await newMember(world, team, "write");
    assert.equal((await write(world, team, author)).status, 201);
    await world.sql.query(
      "delete from app.owners where id = (select id from app.accounts where subject = $1)",
      [author.subject],
    );
    const { body: read } = await send(world, team.owner, "GET", `/teams/${team.id}/memories`);
    assert.deepEqual([read.memories.length, read.memories[0].author_id, read.memories[0].seq], [1, null, 0]);
  });
});
