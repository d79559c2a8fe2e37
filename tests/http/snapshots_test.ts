/** POST /snapshot and the restore routes: what they store, return and refuse. Spec 4.1. */

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { balanceOf, newPaidKey, newProjectToken, sha256Hex, snapshotBody } from "../support/factories.ts";
import { onEveryBackend } from "../support/harness.ts";

const RECEIPT_FIELDS = [
  "agent_id",
  "byte_size",
  "client_payload_hash",
  "confirmed_at",
  "cost_milli",
  "sequence_number",
  "snapshot_id",
  "status",
  "storage_path",
];

onEveryBackend((test) => {
  test("POST /snapshot answers 200 with the receipt, and the ciphertext comes back byte for byte", async (world) => {
    const token = newProjectToken();
    const ciphertext = randomBytes(5000);
    const hash = sha256Hex("payload");
    const body = snapshotBody({ agent_id: "agent-1", client_payload_hash: hash }, ciphertext);
    const { status, body: receipt } = await world.request("POST", "/snapshot", { token, body });
    assert.equal(status, 200);
    assert.deepEqual(Object.keys(receipt).sort(), RECEIPT_FIELDS);
    assert.match(receipt.snapshot_id, /^[0-9a-f-]{36}$/);
    assert.match(receipt.confirmed_at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    assert.deepEqual({ ...receipt, snapshot_id: null, confirmed_at: null }, {
      snapshot_id: null,
      agent_id: "agent-1",
      sequence_number: 0,
      storage_path: `agent-1/seq-0-${hash.slice(0, 12)}.bin`,
      byte_size: 5000,
      cost_milli: 0,
      client_payload_hash: hash,
      status: "confirmed",
      confirmed_at: null,
    });

    const latest = await world.request("GET", "/snapshot/agent-1/latest", { token });
    assert.equal(latest.status, 200);
    assert.deepEqual(Object.keys(latest.body).sort(), ["ciphertextUrl", "receipt"]);
    assert.deepEqual(latest.body.receipt, receipt);
    const download = await fetch(latest.body.ciphertextUrl);
    assert.equal(download.status, 200);
    assert.deepEqual(new Uint8Array(await download.arrayBuffer()), new Uint8Array(ciphertext));
  });

  test("GET /snapshot/:agent_id/:sequence restores an earlier snapshot", async (world) => {
    const token = newProjectToken();
    const first = await world.request("POST", "/snapshot", { token, body: snapshotBody() });
    await world.request("POST", "/snapshot", { token, body: snapshotBody({ sequence_number: 1 }) });
    const earlier = await world.request("GET", "/snapshot/agent/0", { token });
    assert.equal(earlier.status, 200);
    assert.deepEqual(earlier.body.receipt, first.body);
    assert.equal(
      (await world.request("GET", "/snapshot/agent/latest", { token })).body.receipt.sequence_number,
      1,
    );
  });

  test("GET /snapshot/:agent_id/lineage lists newest first with the parents as sent, and clamps limit", async (world) => {
    const token = newProjectToken();
    const paths: string[] = [];
    for (let sequence = 0; sequence < 4; sequence++) {
      const parent = sequence === 0 ? null : paths[sequence - 1];
      const body = snapshotBody({ sequence_number: sequence, parent_snapshot: parent });
      paths.push((await world.request("POST", "/snapshot", { token, body })).body.storage_path);
    }
    const all = await world.request("GET", "/snapshot/agent/lineage", { token });
    assert.equal(all.status, 200);
    assert.deepEqual(all.body.map((entry: { sequence_number: number }) => entry.sequence_number), [
      3,
      2,
      1,
      0,
    ]);
    assert.deepEqual(
      all.body.map((entry: { parent_path: string }) => entry.parent_path),
      [paths[2], paths[1], paths[0], null],
    );
    assert.deepEqual(Object.keys(all.body[0]).sort(), [
      "client_payload_hash",
      "confirmed_at",
      "parent_path",
      "sequence_number",
      "storage_path",
    ]);
    for (
      const [limit, count] of [["0", 1], ["-7", 1], ["1", 1], ["3", 3], ["501", 4], ["999999", 4]] as const
    ) {
      const page = await world.request("GET", `/snapshot/agent/lineage?limit=${limit}`, { token });
      assert.equal(page.body.length, count, `limit=${limit}`);
    }
    const junk = await world.request("GET", "/snapshot/agent/lineage?limit=ten", { token });
    assert.deepEqual([junk.status, junk.body.error], [400, "invalid_field:limit"]);
  });

  test("GET /snapshot/:agent_id/lineage answers an empty array for an agent without snapshots", async (world) => {
    const answer = await world.request("GET", "/snapshot/nobody/lineage", { token: newProjectToken() });
    assert.deepEqual([answer.status, answer.body], [200, []]);
  });

  test("GET /snapshot answers 404 no_snapshots_for_agent and snapshot_not_found", async (world) => {
    const token = newProjectToken();
    const none = await world.request("GET", "/snapshot/agent/latest", { token });
    assert.deepEqual([none.status, none.body.error], [404, "no_snapshots_for_agent"]);
    await world.request("POST", "/snapshot", { token, body: snapshotBody() });
    const missing = await world.request("GET", "/snapshot/agent/1", { token });
    assert.deepEqual([missing.status, missing.body.error], [404, "snapshot_not_found"]);
  });

  test("GET /snapshot/:agent_id/:sequence answers 400 bad_sequence when it is not a whole number", async (world) => {
    for (const wrong of ["-1", "1.5", "1e3", "0x10", "01", "abc", "9007199254740992", "%20", "１"]) {
      const answer = await world.request("GET", `/snapshot/agent/${wrong}`, { token: newProjectToken() });
      assert.deepEqual([answer.status, answer.body.error], [400, "bad_sequence"], wrong);
    }
  });

  test("POST /snapshot repeats the receipt for the same latest sequence and hash, without charging again", async (world) => {
    const key = await newPaidKey(world, 1000);
    const body = snapshotBody({}, randomBytes(1000));
    const first = await world.request("POST", "/snapshot", { token: key.token, body });
    assert.equal(first.body.cost_milli, 45);
    assert.equal(await balanceOf(world, key.accountId), 955);
    const again = await world.request("POST", "/snapshot", { token: key.token, body });
    assert.equal(again.status, 200);
    assert.equal(again.text, first.text);
    assert.equal(await balanceOf(world, key.accountId), 955);
  });

  test("POST /snapshot answers the earlier receipt even when the balance is spent", async (world) => {
    const key = await newPaidKey(world, 45);
    const body = snapshotBody({}, randomBytes(1000));
    const first = await world.request("POST", "/snapshot", { token: key.token, body });
    assert.equal(await balanceOf(world, key.accountId), 0);
    assert.equal((await world.request("POST", "/snapshot", { token: key.token, body })).text, first.text);
  });

  test("POST /snapshot answers 409 sequence_conflict for another hash at an existing sequence", async (world) => {
    const token = newProjectToken();
    const first = await world.request("POST", "/snapshot", { token, body: snapshotBody() });
    await world.request("POST", "/snapshot", { token, body: snapshotBody({ sequence_number: 1 }) });
    for (const sequence of [0, 1]) {
      const answer = await world.request("POST", "/snapshot", {
        token,
        body: snapshotBody({ sequence_number: sequence }),
      });
      assert.deepEqual([answer.status, answer.body.error], [409, "sequence_conflict"]);
      assert.equal(answer.body.head, 1);
    }
    const older = await world.request("GET", "/snapshot/agent/0", { token });
    assert.deepEqual(older.body.receipt, first.body);
  });

  test("POST /snapshot answers 409 sequence_gap when a number is skipped or an older one is repeated", async (world) => {
    const token = newProjectToken();
    const ahead = await world.request("POST", "/snapshot", {
      token,
      body: snapshotBody({ sequence_number: 1 }),
    });
    assert.deepEqual([ahead.status, ahead.body.error], [409, "sequence_gap"]);
    assert.deepEqual([ahead.body.expected_sequence, ahead.body.head], [0, null]);
    const genesis = snapshotBody();
    await world.request("POST", "/snapshot", { token, body: genesis });
    await world.request("POST", "/snapshot", { token, body: snapshotBody({ sequence_number: 1 }) });
    const skipped = await world.request("POST", "/snapshot", {
      token,
      body: snapshotBody({ sequence_number: 3 }),
    });
    assert.deepEqual([skipped.status, skipped.body.error, skipped.body.expected_sequence], [
      409,
      "sequence_gap",
      2,
    ]);
    const older = await world.request("POST", "/snapshot", { token, body: genesis });
    assert.deepEqual([older.status, older.body.error, older.body.expected_sequence], [
      409,
      "sequence_gap",
      2,
    ]);
  });

  test("POST /snapshot answers 402 insufficient_credits, changes nothing, and works once there is credit", async (world) => {
    const key = await newPaidKey(world, 44);
    const body = snapshotBody({}, randomBytes(1000));
    const poor = await world.request("POST", "/snapshot", { token: key.token, body });
    assert.deepEqual([poor.status, poor.body.error], [402, "insufficient_credits"]);
    assert.deepEqual([poor.body.required_milli, poor.body.credits_milli], [45, 44]);
    assert.equal(await balanceOf(world, key.accountId), 44);
    assert.equal((await world.request("GET", "/snapshot/agent/latest", { token: key.token })).status, 404);
    await world.platform.db.call("grant_credits", {
      p_subject: key.subject,
      p_amount_milli: 1,
      p_actor: "test",
      p_note: "one more",
      p_reference: crypto.randomUUID(),
    });
    assert.equal((await world.request("POST", "/snapshot", { token: key.token, body })).status, 200);
    assert.equal(await balanceOf(world, key.accountId), 0);
  });

  test("POST /snapshot never charges a project token, and stops it at its quota while reads go on", async (world) => {
    const token = newProjectToken();
    const small = world.with({ settings: { projectQuotaBytes: 1500 } });
    const first = await small.request("POST", "/snapshot", {
      token,
      body: snapshotBody({}, randomBytes(1000)),
    });
    assert.deepEqual([first.status, first.body.cost_milli], [200, 0]);
    const second = await small.request("POST", "/snapshot", {
      token,
      body: snapshotBody({ sequence_number: 1 }, randomBytes(501)),
    });
    assert.deepEqual([second.status, second.body.error], [403, "trial_quota_exceeded"]);
    const fitting = snapshotBody({ sequence_number: 1 }, randomBytes(500));
    assert.equal((await small.request("POST", "/snapshot", { token, body: fitting })).status, 200);
    assert.equal((await small.request("GET", "/snapshot/agent/latest", { token })).status, 200);
  });

  test("two tenants with the same agent, sequence and payload hash keep their own bytes", async (world) => {
    const hash = sha256Hex("same");
    const tenants = [newProjectToken(), newProjectToken(), (await newPaidKey(world)).token];
    const secrets = tenants.map(() => randomBytes(300));
    for (const [i, token] of tenants.entries()) {
      const body = snapshotBody({ agent_id: "default", client_payload_hash: hash }, secrets[i]);
      assert.equal((await world.request("POST", "/snapshot", { token, body })).status, 200);
    }
    for (const [i, token] of tenants.entries()) {
      const { body } = await world.request("GET", "/snapshot/default/latest", { token });
      const bytes = new Uint8Array(await (await fetch(body.ciphertextUrl)).arrayBuffer());
      assert.deepEqual(bytes, new Uint8Array(secrets[i]!));
    }
    const stranger = await world.request("GET", "/snapshot/default/latest", { token: newProjectToken() });
    assert.deepEqual([stranger.status, stranger.body.error], [404, "no_snapshots_for_agent"]);
  });

  test("all keys of one user see the same agents", async (world) => {
    const key = await newPaidKey(world);
    await world.request("POST", "/snapshot", { token: key.token, body: snapshotBody() });
    const { newKeyOf } = await import("../support/factories.ts");
    const second = await newKeyOf(world, key.accountId);
    assert.equal((await world.request("GET", "/snapshot/agent/latest", { token: second.token })).status, 200);
  });

  test("odd agent identifiers round-trip through the body, the path and the blob store", async (world) => {
    const token = newProjectToken();
    const odd = [
      "a/b",
      "../../x",
      ".",
      "..",
      "🦀 emoji",
      "%2f",
      "%",
      "a b",
      "x".repeat(300),
      "é".normalize("NFD"),
    ];
    odd.push(
      "latest",
      "lineage",
      "0",
      "\\..\\x",
      "a#b?c=d",
      "../../../rest/v1/rpc/f",
      "=2F",
      "\u0001",
      "ÿ".repeat(512),
    );
    for (const id of odd) {
      const ciphertext = randomBytes(40);
      const stored = await world.request("POST", "/snapshot", {
        token,
        body: snapshotBody({ agent_id: id }, ciphertext),
      });
      assert.equal(stored.status, 200, `${JSON.stringify(id)}: ${stored.text}`);
      assert.equal(stored.body.agent_id, id);
      for (const tail of ["latest", "0"]) {
        const path = `/snapshot/${encodeURIComponent(id)}/${tail}`;
        const { status, body } = await world.request("GET", path, { token });
        assert.equal(status, 200, `${JSON.stringify(id)} ${tail}`);
        assert.deepEqual(body.receipt, stored.body);
        const bytes = new Uint8Array(await (await fetch(body.ciphertextUrl)).arrayBuffer());
        assert.deepEqual(bytes, new Uint8Array(ciphertext));
      }
      const path = `/snapshot/${encodeURIComponent(id)}/lineage`;
      assert.equal((await world.request("GET", path, { token })).body.length, 1);
    }
    const { rows } = await world.sql.query(
      "select object_name from app.snapshots where status = 'confirmed'",
    );
    for (const { object_name } of rows) {
      assert.match(object_name, /^[0-9a-f-]{36}\/[0-9A-Za-z_=-]+\/seq-\d+-[0-9a-f]{12}\.bin$/);
    }
  });

  test("POST /snapshot takes ciphertext of exactly 262144 bytes and refuses one more", async (world) => {
    const token = newProjectToken();
    const most = await world.request("POST", "/snapshot", {
      token,
      body: snapshotBody({}, randomBytes(262_144)),
    });
    assert.equal(most.status, 200);
    const { body } = await world.request("GET", "/snapshot/agent/latest", { token });
    assert.equal((await (await fetch(body.ciphertextUrl)).arrayBuffer()).byteLength, 262_144);
    for (const size of [262_145, 300_000, 1_000_000]) {
      const answer = await world.request("POST", "/snapshot", {
        token,
        body: snapshotBody({ sequence_number: 1 }, randomBytes(size)),
      });
      assert.deepEqual([answer.status, answer.body.error], [413, "ciphertext_too_large"], String(size));
    }
    const least = snapshotBody({ sequence_number: 1 }, randomBytes(1));
    assert.equal((await world.request("POST", "/snapshot", { token, body: least })).status, 200);
  });
});
