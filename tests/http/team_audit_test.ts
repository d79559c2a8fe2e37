/** The audit ledger: what is in it, and the routes that list, verify and export it. Spec 2.8 and 4.5. */

import assert from "node:assert/strict";
import { verifyChain } from "../../supabase/functions/_shared/domain/audit_chain.ts";
import { runPython } from "../support/audit_page.ts";
import { onEveryBackend, onOneBackend } from "../support/harness.ts";
import { exportOf, inspect } from "../support/stored_ledger.ts";
import { newPerson, type Person } from "../support/people.ts";
import {
  actionsOf,
  grant,
  invitationFor,
  newGuest,
  newMember,
  newSubkey,
  newTeam,
  remove,
  rotate,
  send,
  type Team,
  teamBody,
} from "../support/teams.ts";
import type { World } from "../support/harness.ts";

const ENTRY_FIELDS = [
  "action",
  "actor",
  "created_at",
  "entry_hash",
  "id",
  "metadata",
  "prev_hash",
  "resource_id",
  "resource_type",
  "seq",
];

/** A team in which something of every kind has happened. */
async function newBusyTeam(world: World): Promise<Team & { member: Person; guest: Person }> {
  const team = await newTeam(world);
  const member = await newMember(world, team);
  await grant(world, team, member, { role: "admin" });
  const key = await newSubkey(world, team, member);
  await send(world, member, "DELETE", `/teams/${team.id}/subkeys/${key.id}`);
  const guest = await newGuest(world, team, "read");
  await rotate(world, team, [team.owner, member], { reason: "spring" });
  await remove(world, team, member, [team.owner]);
  return { ...team, member, guest };
}

async function list(world: World, team: Team, query: Record<string, string> = {}, by = team.owner) {
  return await send(world, by, "GET", `/teams/${team.id}/audit?${new URLSearchParams(query)}`);
}

/** Appends entries behind the service's back, as its own functions would. */
async function append(world: World, team: Team, count: number): Promise<void> {
  await world.sql.query(
    `do $$ begin for i in 1..${count} loop
       perform app.append_audit('${team.id}', 'somebody', 'grant.update', 'member', i::text,
         jsonb_build_object('rotation_seq', i, 'role', 'write'));
       if i % 500 = 0 then commit; end if;
     end loop; end $$`,
  );
}

onEveryBackend((test) => {
  test("every change of a team has its entry, with what it did to what", async (world) => {
    const team = await newBusyTeam(world);
    const { status, body } = await list(world, team);
    assert.equal(status, 200);
    assert.deepEqual([Object.keys(body).sort(), body.team_id], [["entries", "team_id"], team.id]);
    for (const entry of body.entries) assert.deepEqual(Object.keys(entry).sort(), ENTRY_FIELDS);
    const owner = team.owner.subject;
    const member = team.member.subject;
    assert.deepEqual(
      body.entries.toReversed().map((
        { seq, actor, action, resource_type, metadata }: Record<string, unknown>,
      ) => [seq, actor, action, resource_type, metadata]),
      [
        [0, owner, "team.create", "team", { name: teamBody().name }],
        [1, owner, "member.add", "member", { role: "write", rotation_seq: 0 }],
        [2, owner, "grant.update", "member", { role: "admin", rotation_seq: 0 }],
        [3, member, "subkey.create", "subkey", { name: "agent", bound_member_id: member }],
        [4, member, "subkey.revoke", "subkey", {}],
        [5, owner, "invitation.create", "invitation", { kind: "member", role: "read" }],
        [6, team.guest.subject, "invitation.accept", "invitation", { kind: "member", role: "read" }],
        [7, owner, "team.rotate", "rotation", {
          reason: "spring",
          rotation_seq: 1,
          rewrapped: 2,
          revoked: null,
        }],
        [8, owner, "member.remove", "member", { reason: "manual_rotation" }],
        [9, owner, "team.rotate", "rotation", {
          reason: "manual_rotation",
          rotation_seq: 2,
          rewrapped: 1,
          revoked: member,
        }],
      ],
    );
    assert.ok(!JSON.stringify(body).includes(team.owner.email), "no address is in the ledger");
  });

  test("GET audit filters by actor, action and time, both ends included, newest first", async (world) => {
    const team = await newBusyTeam(world);
    const all = (await list(world, team)).body.entries as Record<string, string>[];
    const seqs = async (query: Record<string, string>) => {
      const answer = await list(world, team, query);
      assert.equal(answer.status, 200, answer.text);
      return answer.body.entries.map((entry: { seq: number }) => entry.seq);
    };
    const expected = (keep: (entry: Record<string, string>) => boolean) =>
      all.filter(keep).map((each) => each.seq);
    assert.deepEqual(await seqs({}), [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]);
    assert.deepEqual(await seqs({ actor: team.member.subject }), [4, 3]);
    assert.deepEqual(await seqs({ action: "team.rotate" }), [9, 7]);
    assert.deepEqual(await seqs({ actor: team.owner.subject, action: "subkey.create" }), []);
    assert.deepEqual(await seqs({ action: "team" }), [], "a filter is no pattern");
    assert.deepEqual(await seqs({ action: "%" }), []);
    for (const at of [all[0]!, all[4]!, all[9]!].map((entry) => entry.created_at!)) {
      assert.deepEqual(await seqs({ from: at }), expected((entry) => entry.created_at! >= at));
      assert.deepEqual(await seqs({ to: at }), expected((entry) => entry.created_at! <= at));
      assert.deepEqual(await seqs({ from: at, to: at }), expected((entry) => entry.created_at === at));
    }
    assert.deepEqual(await seqs({ from: "2999-01-01" }), []);
    assert.deepEqual(await seqs({ limit: "3" }), [9, 8, 7]);
    assert.deepEqual(await seqs({ limit: "1", actor: team.member.subject }), [4]);
  });

  test("GET audit refuses what is no filter", async (world) => {
    const team = await newTeam(world);
    const wrong: Record<string, string[]> = {
      limit: ["0", "1001", "-1", "1.5", "ten", "", "1e3", " 5", "99999999999999999999"],
      from: [
        "yesterday",
        "",
        "2026-13-01",
        "2026-11-20T25:00:00Z",
        "1",
        "2026-11-20T12:00:00Z; drop table x",
      ],
      to: ["tomorrow", "infinity", "now", "2026-11"],
      actor: ["", "x".repeat(513), "a\0b"],
      action: ["", "x".repeat(257), "a\0b"],
    };
    for (const [field, values] of Object.entries(wrong)) {
      for (const value of values) {
        const { status, body } = await list(world, team, { [field]: value });
        assert.deepEqual([status, body.error], [400, `invalid_field:${field}`], `${field}=${value}`);
        if (field !== "from" && field !== "to") continue;
        const exported = await send(
          world,
          team.owner,
          "GET",
          `/teams/${team.id}/audit/export?${field}=${value}`,
        );
        assert.deepEqual([exported.status, exported.body.error], [400, `invalid_field:${field}`]);
      }
    }
  });

  test("GET audit/verify finds good chains valid and says where they end", async (world) => {
    for (const team of [await newTeam(world), await newBusyTeam(world)]) {
      const { body: listed } = await list(world, team);
      const newest = listed.entries[0];
      const { status, body } = await send(world, team.owner, "GET", `/teams/${team.id}/audit/verify`);
      assert.deepEqual([status, body], [200, {
        team_id: team.id,
        valid: true,
        checked: listed.entries.length,
        head_seq: newest.seq,
        head_hash: newest.entry_hash,
      }]);
    }
  });

  test("GET audit/export gives an admin all that it takes to check the ledger offline, and nobody else", async (world) => {
    const team = await newBusyTeam(world);
    const reader = await newMember(world, team, "read");
    const path = `/teams/${team.id}/audit/export`;
    const { status, body, headers, text } = await send(world, team.owner, "GET", path);
    assert.equal(status, 200);
    assert.equal(headers.get("content-disposition"), `attachment; filename="audit-${team.id}.json"`);
    const { entries, ...frame } = body;
    assert.deepEqual(frame, {
      format: "v2-agent-state/audit/1",
      team_id: team.id,
      head_seq: entries.length - 1,
      head_hash: entries.at(-1).entry_hash,
    });
    assert.deepEqual(entries, (await list(world, team)).body.entries.toReversed());
    assert.deepEqual(verifyChain(body), { valid: true, checked: entries.length, whole: true });
    const python = await runPython(text);
    assert.deepEqual(python ?? { code: 0, text: "" }, { code: 0, text: "" });
    const refused = await send(world, reader, "GET", path);
    assert.deepEqual([refused.status, refused.body.error], [403, "forbidden_role"]);
    assert.equal((await list(world, team, {}, reader)).status, 200);
    for (const stranger of [team.member, await newPerson(world)]) {
      for (const tail of ["", "/verify", "/export"]) {
        const answer = await send(world, stranger, "GET", `/teams/${team.id}/audit${tail}`);
        assert.deepEqual([answer.status, answer.body.error], [403, "not_a_team_member"], tail);
      }
    }
  });

  test("every period of a ledger can be exported and checked", async (world) => {
    const team = await newBusyTeam(world);
    const whole = await exportOf(world, team);
    const times = whole.entries.map((entry) => entry.created_at);
    for (const [from, to] of [[2, 6], [0, 9], [5, 5], [7, 3], [4, undefined], [undefined, 4]]) {
      const period = {
        ...(from === undefined ? {} : { from: times[from]! }),
        ...(to === undefined ? {} : { to: times[to]! }),
      };
      const part = await exportOf(world, team, `?${new URLSearchParams(period)}`);
      assert.deepEqual([part.from, part.to], [period.from, period.to]);
      const kept = whole.entries.filter(({ created_at }) =>
        created_at >= (period.from ?? "") && created_at <= (period.to ?? "9")
      );
      assert.deepEqual(part.entries, kept);
      assert.deepEqual(verifyChain(part), { valid: true, checked: kept.length, whole: false });
    }
  });
});

onOneBackend((test) => {
  test("GET audit shows 200 entries unless told otherwise, and at most 1000", async (world) => {
    const team = await newTeam(world);
    await append(world, team, 1_100);
    const first = async (query: Record<string, string>) => {
      const { entries } = (await list(world, team, query)).body;
      return [entries.length, entries[0].seq, entries.at(-1).seq];
    };
    assert.deepEqual(await first({}), [200, 1_100, 901]);
    assert.deepEqual(await first({ limit: "1000" }), [1_000, 1_100, 101]);
    assert.deepEqual(await first({ limit: "1" }), [1, 1_100, 1_100]);
  });

  test("32 changes at once leave a dense and valid chain", async (world) => {
    const team = await newTeam(world);
    const answers = await Promise.all(Array.from({ length: 32 }, (_, i) => {
      if (i % 2 === 0) return grant(world, team, team.owner, { role: "admin" });
      return send(world, team.owner, "POST", `/teams/${team.id}/subkeys`, { name: `agent ${i}` });
    }));
    assert.deepEqual([...new Set(answers.map(({ status }) => status))], [201]);
    const { served, offline } = await inspect(world, team);
    assert.deepEqual([served.valid, served.checked], [true, 33]);
    assert.deepEqual(offline, { valid: true, checked: 33, whole: true });
  });

  test("a chain that grows while it is checked or exported is never called broken", async (world) => {
    const team = await newTeam(world);
    const changes = Array.from({ length: 40 }, () => grant(world, team, team.owner, { role: "admin" }));
    const checks = Array.from({ length: 40 }, () => inspect(world, team));
    for (const { served, offline } of await Promise.all(checks)) {
      assert.deepEqual([served.valid, offline.valid], [true, true], String(offline.reason));
    }
    await Promise.all(changes);
  });

  test("a change that is refused leaves no entry", async (world) => {
    const team = await newTeam(world);
    const [writer, stranger] = [await newMember(world, team), await newPerson(world)];
    const before = await actionsOf(world, team);
    const refused = [
      await grant(world, team, team.owner, { role: "read" }),
      await grant(world, team, stranger, { rotation_seq: 7 }),
      await grant(world, { ...team, owner: writer }, stranger),
      await rotate(world, team, [team.owner]),
      await rotate(world, team, [team.owner, writer, stranger]),
      await rotate(world, team, [writer], { revoke_member_id: team.owner.subject }),
      await send(world, writer, "POST", `/teams/${team.id}/invitations`, { email: "a@example.com" }),
      await send(world, stranger, "POST", `/teams/${team.id}/subkeys`, { name: "x" }),
      await send(world, team.owner, "DELETE", `/teams/${team.id}/subkeys/${crypto.randomUUID()}`),
    ];
    for (const { status, text } of refused) assert.ok(status >= 400 && status < 500, text);
    await grant(world, team, await newPerson(world));
    const full = await grant(world, team, await newPerson(world));
    assert.equal(full.body.error, "seat_limit_reached");
    assert.deepEqual(await actionsOf(world, team), [...before, "member.add"]);
    assert.equal((await inspect(world, team)).served.valid, true);
  });

  test("what fails after its entry was written takes the entry with it", async (world) => {
    const team = await newTeam(world);
    const token = await invitationFor(world, team, "guest@example.com");
    assert.match(token, /^inv_/);
    const { rows } = await world.sql.query("select audit_seq from app.teams where id = $1", [team.id]);
    await assert.rejects(world.sql.query(
      `do $$ begin
         perform app.append_audit('${team.id}', 'a', 'b', 'c', 'd', '{}');
         perform app.refuse('forbidden_role');
       end $$`,
    ));
    const { served } = await inspect(world, team);
    assert.deepEqual([served.valid, served.checked], [true, Number(rows[0].audit_seq) + 1]);
  });
});
