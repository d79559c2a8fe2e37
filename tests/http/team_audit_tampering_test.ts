/** The audit ledger against whoever owns the database: every change to what is stored shows. Spec 2.8 and 4.5. */

import assert from "node:assert/strict";
import { type AuditExport, verifyChain } from "../../supabase/functions/_shared/domain/audit_chain.ts";
import { tamperExport } from "../support/audit.ts";
import { onOneBackend, type World } from "../support/harness.ts";
import { asIntruder, exportOf, type Findings, inspect } from "../support/stored_ledger.ts";
import { newTeam, send, type Team } from "../support/teams.ts";

/** Entries of one piece that the service checks at a time, and a few. */
const MANY = 5_010;

/** A team with so many entries, of every type of metadata. */
async function newLedger(world: World, count: number): Promise<Team> {
  const team = await newTeam(world);
  await world.sql.query(
    `do $$ begin for i in 1..${count - 1} loop
       perform app.append_audit('${team.id}', 'person ' || i % 3, 'test.note', 'rotation', 'x' || i,
         jsonb_build_object('number', 1, 'text', '1', 'flag', true, 'none', null, 'reason', 'é🦉' || i));
       if i % 500 = 0 then commit; end if;
     end loop; end $$`,
  );
  return team;
}

/** Fails unless the service finds the ledger broken at `place`, and the offline verifier its export. */
function expectBroken(
  { served, offline }: Findings,
  name: string,
  place: number,
  offlinePlace = place,
): void {
  assert.deepEqual([served.valid, served.broken_seq], [false, place], `${name}: the service`);
  assert.deepEqual([offline.valid, offline.brokenSeq], [false, offlinePlace], `${name}: ${offline.reason}`);
}

/** Fails unless the service finds an entry after the head. An export ends at the head, and is good. */
function expectSurplus({ served, offline }: Findings, name: string): void {
  assert.deepEqual([served.valid, served.broken_seq], [false, 6], name);
  assert.deepEqual([offline.valid, offline.checked], [true, 6], name);
}

/** Every way to write over one value of an entry. */
const EDITS = [
  ...["actor", "action", "resource_type", "resource_id"].flatMap((column) => [
    `${column} = ${column} || ' '`,
    `${column} = upper(${column}) || 'é'`,
    `${column} = ''`,
  ]),
  "id = gen_random_uuid()",
  "created_at = created_at + interval '1 millisecond'",
  "created_at = created_at - interval '1 millisecond'",
  "created_at = created_at + interval '1 year'",
  "action = action || left(resource_type, 1), resource_type = substr(resource_type, 2)",
  `metadata = metadata || '{"more": null}'`,
  `metadata = metadata || '{"deep": {"a": [1]}}'`,
  `metadata = '{"only": 1}'`,
  "team_id = team_id, prev_hash = entry_hash, entry_hash = prev_hash",
  ...Array.from({ length: 32 }, (_, i) => ["prev_hash", "entry_hash"].map((column) => flipByte(column, i)))
    .flat(),
];
/** Ways to write over what only the later entries of {@link newLedger} have. */
const METADATA_EDITS = [
  `metadata = metadata || '{"number": "1"}'`,
  `metadata = metadata || '{"number": 2}'`,
  `metadata = metadata || '{"number": 1.5}'`,
  `metadata = metadata || '{"text": 1}'`,
  `metadata = metadata || '{"flag": "true"}'`,
  `metadata = metadata || '{"flag": false}'`,
  `metadata = metadata || '{"none": "null"}'`,
  `metadata = metadata || '{"none": {}}'`,
  `metadata = metadata || '{"none": []}'`,
  `metadata = metadata - 'none'`,
  `metadata = metadata - 'text' || '{"Text": "1"}'`,
];

function flipByte(column: string, i: number): string {
  return `${column} = set_byte(${column}, ${i}, get_byte(${column}, ${i}) # 1)`;
}

/** Gives every entry from `start` on the hashes that would be right; `head` moves the head along. */
function rehashSql(team: Team, start: number, head: boolean): string {
  return `do $$
    declare v app.audit_entries; v_last bytea := (
      select entry_hash from app.audit_entries where team_id = '${team.id}' and seq = ${start} - 1);
    begin
      for v in select * from app.audit_entries where team_id = '${team.id}' and seq >= ${start} order by seq loop
        v.actor := case v.seq when ${start} then 'mallory' else v.actor end;
        v.prev_hash := coalesce(v_last, v.prev_hash);
        v.entry_hash := app.hash_audit_entry(v);
        v_last := v.entry_hash;
        update app.audit_entries set actor = v.actor, prev_hash = v.prev_hash, entry_hash = v.entry_hash
         where team_id = v.team_id and seq = v.seq;
      end loop;
      ${head ? `update app.teams set audit_hash = v_last where id = '${team.id}';` : ""}
    end $$`;
}

onOneBackend((test) => {
  test("whatever is written over in a stored entry shows, and at which entry", async (world) => {
    const team = await newLedger(world, 6);
    let caught = 0;
    await asIntruder(world, async (tamper) => {
      for (const seq of [0, 3, 5]) {
        for (const edit of [...EDITS, ...(seq === 0 ? [] : METADATA_EDITS)]) {
          const sql = `update app.audit_entries set ${edit} where team_id = $1 and seq = $2`;
          expectBroken(await tamper(team, sql, [team.id, seq]), `entry ${seq}: ${edit}`, seq);
          caught++;
        }
      }
    });
    assert.ok(caught >= 250, String(caught));
    assert.equal((await inspect(world, team)).served.valid, true, "nothing of it was left");
  });

  test("entries that are deleted, moved, doubled, put in or foreign show", async (world) => {
    const [team, other] = [await newLedger(world, 6), await newLedger(world, 6)];
    const mine = `team_id = '${team.id}'`;
    const copy = (columns: string, where: string) =>
      `insert into app.audit_entries (team_id, seq, id, actor, action, resource_type, resource_id, metadata,
              prev_hash, entry_hash, created_at)
       select '${team.id}', ${columns}, actor, action, resource_type, resource_id, metadata, prev_hash, entry_hash,
              created_at from app.audit_entries where ${where}`;
    const deleted = (where: string) => `delete from app.audit_entries where ${mine} and ${where}`;
    const both = (first: string, second: string) => `do $$ begin ${first}; ${second}; end $$`;
    await asIntruder(world, async (tamper) => {
      for (let i = 0; i < 6; i++) {
        expectBroken(await tamper(team, deleted(`seq = ${i}`)), `entry ${i} deleted`, i);
        expectBroken(await tamper(team, deleted(`seq >= ${i}`)), `cut off before ${i}`, i);
        expectBroken(await tamper(team, deleted(`seq <= ${i}`)), `cut off up to ${i}`, 0);
        const closed = both(
          deleted(`seq = ${i}`),
          `update app.audit_entries set seq = seq - 1 where ${mine} and seq > ${i}`,
        );
        expectBroken(await tamper(team, closed), `entry ${i} deleted and the gap closed`, i);
        const renumbered = `update app.audit_entries set seq = seq + 1 where ${mine} and seq >= ${i}`;
        expectBroken(await tamper(team, renumbered), `renumbered from ${i} on`, i);
        const doubled = copy("seq, gen_random_uuid()", `${mine} and seq = ${i}`);
        const { served, offline } = await tamper(team, doubled);
        assert.deepEqual([served.valid, offline.valid], [false, false], `entry ${i} doubled`);
        expectBroken(
          await tamper(team, both(renumbered, copy(`${i}, gen_random_uuid()`, `${mine} and seq = ${i} + 1`))),
          `put in before ${i}`,
          i,
        );
        const spliced = both(
          deleted(`seq >= ${i}`),
          copy("seq, gen_random_uuid()", `team_id = '${other.id}' and seq >= ${i}`),
        );
        expectBroken(await tamper(team, spliced), `another team's from ${i} on`, i);
        for (let j = i + 1; j < 6; j++) {
          const swapped =
            `update app.audit_entries set seq = ${i} + ${j} - seq where ${mine} and seq in (${i}, ${j})`;
          expectBroken(await tamper(team, swapped), `entries ${i} and ${j} exchanged`, i);
        }
        expectBroken(
          await tamper(team, rehashSql(team, i, false)),
          `rewritten from ${i} on, without the head`,
          5,
        );
      }
      expectSurplus(
        await tamper(team, copy("6, gen_random_uuid()", `${mine} and seq = 5`)),
        "one after the head",
      );
      const turned = `update app.audit_entries set seq = 5 - seq where ${mine}`;
      expectBroken(await tamper(team, turned), "turned round", 0);
      const moved =
        `update app.audit_entries set team_id = '${team.id}', seq = seq + 6 where team_id = '${other.id}'`;
      expectSurplus(await tamper(team, moved), "another team's after the head");
    });
  });

  test("a head that was changed shows", async (world) => {
    const team = await newLedger(world, 4);
    // Where the service sees it, and where it shows in an export, which ends at the head.
    const places: Record<string, [number, number]> = {
      "audit_seq = audit_seq - 1": [3, 2],
      "audit_seq = 0": [1, 0],
      "audit_seq = -1": [0, 0],
      "audit_seq = audit_seq + 1": [4, 4],
      "audit_seq = 100": [4, 4],
      "audit_hash = sha256('')": [3, 3],
    };
    for (let i = 0; i < 32; i++) places[flipByte("audit_hash", i)] = [3, 3];
    await asIntruder(world, async (tamper) => {
      for (const [edit, [place, offlinePlace]] of Object.entries(places)) {
        const sql = `update app.teams set ${edit} where id = $1`;
        expectBroken(await tamper(team, sql, [team.id]), edit, place, offlinePlace);
      }
    });
  });

  test("a ledger that was rewritten as a whole shows to whoever kept an earlier head", async (world) => {
    const team = await newLedger(world, 6);
    const before = await exportOf(world, team);
    const earlier = ({ entries }: AuditExport, seq: number) => ({
      head_seq: seq,
      head_hash: entries[seq]!.entry_hash,
    });
    for (let seq = 0; seq < 6; seq++) assert.ok(verifyChain(before, earlier(before, seq)).valid);
    await world.sql.query(
      `begin; set local session_replication_role = replica; ${rehashSql(team, 2, true)}; commit`,
    );
    const { served, offline } = await inspect(world, team);
    assert.deepEqual([served.valid, offline.valid], [true, true], "from inside it cannot be seen");
    const after = await exportOf(world, team);
    for (let seq = 0; seq < 6; seq++) {
      const verdict = verifyChain(after, earlier(before, seq));
      assert.deepEqual([verdict.valid, verdict.brokenSeq], seq < 2 ? [true, undefined] : [false, seq]);
    }
  });

  test("every tampering with a real export is caught", async (world) => {
    const [good, other] = [await newLedger(world, 5), await newLedger(world, 5)].map((team) =>
      exportOf(world, team)
    );
    let caught = 0;
    for (const { name, exported } of tamperExport(await good!, await other!)) {
      assert.ok(!verifyChain(JSON.parse(JSON.stringify(exported))).valid, name);
      caught++;
    }
    assert.ok(caught >= 500, String(caught));
  });

  test("ledgers of every length around a piece hold, and a change in any piece shows", async (world) => {
    const team = await newLedger(world, 4_999);
    for (let length = 4_999; length <= MANY; length++) {
      if (length <= 5_000 || length === MANY) {
        const { served, offline } = await inspect(world, team);
        assert.deepEqual([served.valid, served.checked], [true, length]);
        assert.deepEqual(offline, { valid: true, checked: length, whole: true });
      }
      if (length < MANY) {
        await world.sql.query("select app.append_audit($1, 'a', 'b', 'c', 'd', '{}')", [team.id]);
      }
    }
    const { db } = world.platform;
    const failing = world.with({
      db: {
        ...db,
        call: (name, args) =>
          args.p_after_seq === 4_999 ? Promise.reject(new Error("away")) : db.call(name, args),
      },
    });
    await assert.rejects(exportOf(failing, team), /away/, "an export that cannot be completed is broken off");
    await asIntruder(world, async (tamper) => {
      for (const seq of [4_999, 5_000, MANY - 1]) {
        const edited = "update app.audit_entries set actor = 'm' where team_id = $1 and seq = $2";
        expectBroken(await tamper(team, edited, [team.id, seq]), `entry ${seq}`, seq);
        const deleted = "delete from app.audit_entries where team_id = $1 and seq = $2";
        expectBroken(await tamper(team, deleted, [team.id, seq]), `entry ${seq} deleted`, seq);
        const cut = "delete from app.audit_entries where team_id = $1 and seq >= $2";
        expectBroken(await tamper(team, cut, [team.id, seq]), `cut off before ${seq}`, seq);
      }
    });
  });

  test("a stored entry cannot be changed, deleted or truncated, by the service or by the owner", async (world) => {
    const team = await newLedger(world, 3);
    const attempts = [
      `update app.audit_entries set actor = 'm' where team_id = '${team.id}'`,
      `update app.audit_entries set metadata = metadata where team_id = '${team.id}'`,
      `delete from app.audit_entries where team_id = '${team.id}'`,
      "truncate app.audit_entries",
      "truncate app.teams cascade",
    ];
    for (const sql of attempts) {
      await assert.rejects(
        world.sql.query(sql),
        /only grows/,
        sql,
      );
      await assert.rejects(
        world.sql.query(`begin; set local role service_role; ${sql}`),
        /permission denied/,
        sql,
      );
      await world.sql.query("rollback");
    }
    for (
      const call of [
        "app.append_audit($1, 'a', 'b', 'c', 'd', '{}')",
        "count(*) from app.audit_entries where team_id = $1",
      ]
    ) {
      const sql = `select ${call.replace("$1", `'${team.id}'`)}`;
      await assert.rejects(
        world.sql.query(`begin; set local role service_role; ${sql}`),
        /permission denied/,
        sql,
      );
      await world.sql.query("rollback");
    }
    const { served } = await inspect(world, team);
    assert.deepEqual([served.valid, served.checked], [true, 3]);
  });

  test("entries never go back in time, whatever the clock does", async (world) => {
    const team = await newTeam(world);
    await world.sql.query(
      `begin; set local session_replication_role = replica;
       update app.audit_entries set created_at = created_at + interval '1 day' where team_id = '${team.id}';
       ${rehashSql(team, 0, true)}; commit`,
    );
    await send(world, team.owner, "POST", `/teams/${team.id}/subkeys`, { name: "agent" });
    const { entries } = await exportOf(world, team);
    assert.equal(entries.length, 2);
    assert.equal(entries[1]!.created_at, entries[0]!.created_at);
  });
});
