/** What the database hashes is what anybody can hash outside of it, byte for byte. Spec 2.8; docs/audit.md. */

import assert from "node:assert/strict";
import { hashAuditEntry } from "../../supabase/functions/_shared/domain/audit_chain.ts";
import { readSources } from "../contract/sources.ts";
import { readPage, runPython } from "../support/audit_page.ts";
import { onOneBackend } from "../support/harness.ts";
import { inspect } from "../support/stored_ledger.ts";
import { newTeam, send, teamBody, wrappedKey } from "../support/teams.ts";

const ODD = [
  "Zoë Ægir ﬁn",
  "🦉🗝️",
  `"'\`\\ \\u0000 \\\\ $1 {} %s`,
  "\u0001\t\r\n\u001f\u007f\u0085\u2028",
  "e\u0301 مرحبا \u202e",
  "\ufffd\uffff\u{10ffff}",
  "x".repeat(256),
  " ",
  "null",
  "__proto__",
];

onOneBackend((test) => {
  test("the database and TypeScript agree on the hash of every entry, however odd its text", async (world) => {
    for (const odd of ODD) {
      const subject = `${odd} ${crypto.randomUUID()}`;
      const owner = { subject, email: "odd@example.com", token: await world.issuer.token(subject) };
      const made = await send(
        world,
        owner,
        "POST",
        "/teams",
        teamBody({ name: [...odd].slice(0, 128).join("") }),
      );
      assert.equal(made.status, 201, made.text);
      const team = { id: made.body.id, owner };
      const grants = [{ member_id: subject, wrapped_dek: wrappedKey() }];
      const rotated = await send(world, owner, "POST", `/teams/${team.id}/rotate`, { grants, reason: odd });
      assert.equal(rotated.status, 200, rotated.text);
      const answer = await send(world, owner, "GET", `/teams/${team.id}/audit/export`);
      assert.deepEqual(
        answer.body.entries.map((
          entry: { metadata: Record<string, unknown> },
        ) => entry.metadata.name ?? entry.metadata.reason),
        [[...odd].slice(0, 128).join(""), odd],
      );
      for (const entry of answer.body.entries) {
        assert.equal(entry.actor, subject);
        assert.equal(hashAuditEntry(team.id, entry), entry.entry_hash, JSON.stringify(odd));
      }
      assert.equal((await inspect(world, team)).served.valid, true);
      assert.equal((await runPython(answer.text))?.code ?? 0, 0, JSON.stringify(odd));
      const found = await send(
        world,
        owner,
        "GET",
        `/teams/${team.id}/audit?${new URLSearchParams({ actor: subject })}`,
      );
      assert.equal(found.body.entries.length, 2, JSON.stringify(odd));
    }
  });

  test("keys and values of metadata are hashed alike in both, and only flat ones can be kept", async (world) => {
    const team = await newTeam(world);
    const add = (metadata: string) =>
      world.sql.query("select app.append_audit($1, 'a', 'b', 'c', 'd', $2)", [team.id, metadata]);
    await add('{"ﬁn":1,"🗝":2,"z":3,"":4,"__proto__":5,"a":-1,"A":999999999999999,"b":0,"aa":"x","é":null}');
    await add('{"t":true,"f":false,"n":null,"s":"","q":"\\"\\\\\\u0001"}');
    assert.deepEqual((await inspect(world, team)).offline, {
      valid: true,
      checked: 3,
      whole: true,
    });
    for (const metadata of ['{"a":{}}', '{"a":[1]}', '{"a":0.5}', '{"a":1.0}', '{"a":1e15}']) {
      await assert.rejects(add(metadata), /audit_entries_metadata_check/, metadata);
    }
    for (const metadata of ["[]", '"x"', "null", "1"]) {
      await assert.rejects(add(metadata), metadata);
    }
    assert.equal((await inspect(world, team)).served.checked, 3);
  });

  test("docs/audit.md names every action that the database records, and no other", () => {
    const recorded = readSources("supabase/migrations", ".sql").flatMap(({ text }) =>
      [...text.matchAll(/append_audit\([^;]*?'([a-z]+\.[a-z]+)'(?: else '([a-z]+\.[a-z]+)')?/g)]
        .flatMap(([, first, second]) => second === undefined ? [first] : [first, second])
    );
    const named = [...readPage().matchAll(/^\| `([a-z]+\.[a-z]+)` \|/gm)].map(([, action]) => action);
    assert.deepEqual(named.toSorted(), [...new Set(recorded)].toSorted());
    return Promise.resolve();
  });
});
