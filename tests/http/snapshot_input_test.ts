/** POST /snapshot refuses bad input with the right code, in the right order, and changes nothing. Spec 4.1, 7. */

import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { randomBytes } from "node:crypto";
import { newProjectToken, snapshotBody, ZERO_HASH } from "../support/factories.ts";
import { onOneBackend } from "../support/harness.ts";

const REQUIRED = [
  "agent_id",
  "sequence_number",
  "parent_snapshot",
  "policy_hash",
  "client_payload_hash",
  "ciphertext_b64",
  "byte_size",
  "timestamp",
];

/** Field, wrong value, expected status and code; each in an otherwise good genesis request. */
const WRONG: [string, unknown, number, string][] = [
  ["agent_id", "", 400, "invalid_field:agent_id"],
  ["agent_id", null, 400, "invalid_field:agent_id"],
  ["agent_id", 7, 400, "invalid_field:agent_id"],
  ["agent_id", ["agent"], 400, "invalid_field:agent_id"],
  ["agent_id", "a\0b", 400, "invalid_field:agent_id"],
  ["agent_id", "\ud800", 400, "invalid_field:agent_id"],
  ["agent_id", "\udfff", 400, "invalid_field:agent_id"],
  ["agent_id", "x".repeat(513), 400, "invalid_field:agent_id"],
  ["sequence_number", -1, 400, "bad_sequence"],
  ["sequence_number", 1.5, 400, "bad_sequence"],
  ["sequence_number", "0", 400, "bad_sequence"],
  ["sequence_number", null, 400, "bad_sequence"],
  ["sequence_number", [0], 400, "bad_sequence"],
  ["sequence_number", true, 400, "bad_sequence"],
  ["sequence_number", 1e308, 400, "bad_sequence"],
  ["sequence_number", 9007199254740993, 400, "bad_sequence"],
  ["policy_hash", "0".repeat(63), 400, "bad_policy_hash"],
  ["policy_hash", "g".repeat(64), 400, "bad_policy_hash"],
  ["policy_hash", `${ZERO_HASH}\n`, 400, "bad_policy_hash"],
  ["policy_hash", 0, 400, "bad_policy_hash"],
  ["policy_hash", [ZERO_HASH], 400, "bad_policy_hash"],
  ["client_payload_hash", "0".repeat(65), 400, "bad_payload_hash"],
  ["client_payload_hash", "", 400, "bad_payload_hash"],
  ["client_payload_hash", null, 400, "bad_payload_hash"],
  ["client_payload_hash", [ZERO_HASH], 400, "bad_payload_hash"],
  ["ciphertext_b64", "not base64!", 400, "invalid_field:ciphertext_b64"],
  ["ciphertext_b64", "YR==", 400, "invalid_field:ciphertext_b64"],
  ["ciphertext_b64", "YQ", 400, "invalid_field:ciphertext_b64"],
  ["ciphertext_b64", " YWJj", 400, "invalid_field:ciphertext_b64"],
  ["ciphertext_b64", "_-8=", 400, "invalid_field:ciphertext_b64"],
  ["ciphertext_b64", "", 400, "invalid_field:ciphertext_b64"],
  ["ciphertext_b64", 12, 400, "invalid_field:ciphertext_b64"],
  ["byte_size", 65, 400, "byte_size_mismatch"],
  ["byte_size", 63, 400, "byte_size_mismatch"],
  ["byte_size", 0, 400, "invalid_field:byte_size"],
  ["byte_size", -64, 400, "invalid_field:byte_size"],
  ["byte_size", "64", 400, "invalid_field:byte_size"],
  ["byte_size", 64.5, 400, "invalid_field:byte_size"],
  ["byte_size", 1e308, 400, "invalid_field:byte_size"],
  ["parent_snapshot", "a/seq-0-abc.bin", 400, "genesis_violation"],
  ["parent_snapshot", "", 400, "genesis_violation"],
  ["parent_snapshot", 5, 400, "invalid_field:parent_snapshot"],
  ["parent_snapshot", "a\0", 400, "invalid_field:parent_snapshot"],
  ["timestamp", "yesterday", 400, "invalid_field:timestamp"],
  ["timestamp", 1700000000000, 400, "invalid_field:timestamp"],
  ["timestamp", "", 400, "invalid_field:timestamp"],
  ["timestamp", null, 400, "invalid_field:timestamp"],
];

onOneBackend((test) => {
  test("POST /snapshot answers 400 missing_field:<field> for each required field", async (world) => {
    const token = newProjectToken();
    for (const field of REQUIRED) {
      const answer = await world.request("POST", "/snapshot", {
        token,
        body: snapshotBody({ [field]: undefined }),
      });
      assert.deepEqual([answer.status, answer.body.error], [400, `missing_field:${field}`]);
      assert.match(answer.body.request_id, /^[0-9a-f-]{36}$/);
    }
  });

  for (const [field, value, status, code] of WRONG) {
    const shown = JSON.stringify(value)?.slice(0, 24);
    test(`POST /snapshot answers ${status} ${code} when ${field} is ${shown}`, async (world) => {
      const token = newProjectToken();
      const answer = await world.request("POST", "/snapshot", {
        token,
        body: snapshotBody({ [field]: value }),
      });
      assert.deepEqual([answer.status, answer.body.error], [status, code]);
      assert.equal((await world.request("POST", "/snapshot", { token, body: snapshotBody() })).status, 200);
    });
  }

  test("POST /snapshot answers 400 missing_parent_snapshot above sequence 0 without a parent", async (world) => {
    for (const parent of [null, "", undefined]) {
      const body = snapshotBody({ sequence_number: 1, parent_snapshot: parent });
      const answer = await world.request("POST", "/snapshot", { token: newProjectToken(), body });
      assert.deepEqual([answer.status, answer.body.error], [400, "missing_parent_snapshot"], String(parent));
    }
  });

  test("POST /snapshot answers 400 invalid_json for bodies that are not a JSON object", async (world) => {
    const invalidUtf8 = new Uint8Array([...new TextEncoder().encode('{"agent_id":"'), 0xff, 0x22, 0x7d]);
    const bodies = [
      "",
      "{",
      "null",
      "[]",
      "[1]",
      '"text"',
      "12",
      "true",
      "NaN",
      "{}{}",
      "{'a':1}",
      invalidUtf8,
    ];
    for (const body of bodies) {
      const answer = await world.request("POST", "/snapshot", { token: newProjectToken(), body });
      assert.deepEqual([answer.status, answer.body.error], [400, "invalid_json"], String(body));
    }
  });

  test("POST /snapshot survives deep, prototype-naming and duplicated JSON", async (world) => {
    const token = newProjectToken();
    const deep = `{"agent_id":${"[".repeat(50_000)}${"]".repeat(50_000)}}`;
    const answers = [
      await world.request("POST", "/snapshot", { token, body: deep }),
      await world.request("POST", "/snapshot", {
        token,
        body: '{"__proto__":{"agent_id":"x"},"constructor":1}',
      }),
    ];
    for (const answer of answers) assert.equal(answer.status, 400, answer.text);
    const body = JSON.stringify({ ...snapshotBody(), status: "confirmed", cost_milli: -5, owner_id: "x" });
    const extra = await world.request("POST", "/snapshot", { token, body });
    assert.deepEqual([extra.status, extra.body.cost_milli], [200, 0]);
  });

  test("POST /snapshot checks the body before the sequence, the sequence before the money", async (world) => {
    const token = newProjectToken();
    const ahead = { sequence_number: 5, policy_hash: "x" };
    const first = await world.request("POST", "/snapshot", { token, body: snapshotBody(ahead) });
    assert.equal(first.body.error, "bad_policy_hash");
    const mismatch = snapshotBody({ sequence_number: 5, byte_size: 1 });
    assert.equal(
      (await world.request("POST", "/snapshot", { token, body: mismatch })).body.error,
      "byte_size_mismatch",
    );
    const poor = world.with({ settings: { projectQuotaBytes: 0 } });
    const gap = await poor.request("POST", "/snapshot", {
      token,
      body: snapshotBody({ sequence_number: 5 }),
    });
    assert.equal(gap.body.error, "sequence_gap");
    const spent = await poor.request("POST", "/snapshot", { token, body: snapshotBody() });
    assert.equal(spent.body.error, "trial_quota_exceeded");
  });

  test("POST /snapshot accepts upper-case hex and stores it in lower case", async (world) => {
    const hash = randomBytes(32).toString("hex");
    const body = snapshotBody({ client_payload_hash: hash.toUpperCase() });
    const answer = await world.request("POST", "/snapshot", { token: newProjectToken(), body });
    assert.equal(answer.body.client_payload_hash, hash);
  });

  test("a refused request leaves no account, agent or snapshot behind", async (world) => {
    const count = async () =>
      (await world.sql.query(
        "select (select count(*) from app.accounts) + (select count(*) from app.agents) + (select count(*) from app.snapshots) as n",
        [],
      )).rows[0].n;
    const before = await count();
    const token = newProjectToken();
    for (const over of [{ policy_hash: "x" }, { sequence_number: 3 }, { byte_size: 3 }]) {
      assert.ok(
        (await world.request("POST", "/snapshot", { token, body: snapshotBody(over) })).status >= 400,
      );
    }
    assert.equal(await count(), before);
  });

  test("paths that are not valid percent-encoded UTF-8 are refused with a code", async (world) => {
    const token = newProjectToken();
    for (const id of ["%00", "%zz", "%ff", "%ed%a0%80", "a%00b"]) {
      const answer = await world.request("GET", `/snapshot/${id}/latest`, { token });
      assert.ok(answer.status === 400 || answer.status === 404, `${id}: ${answer.status}`);
      assert.equal(typeof answer.body.error, "string");
    }
  });

  test("a body beyond the cap is refused while it is read, whatever length it announced", async (world) => {
    const token = newProjectToken();
    const body = JSON.stringify(snapshotBody({ ciphertext_b64: Buffer.alloc(3_000_000).toString("base64") }));
    const answer = await world.request("POST", "/snapshot", { token, body });
    assert.deepEqual([answer.status, answer.body.error], [413, "ciphertext_too_large"]);
    const lying = await world.request("POST", "/snapshot", {
      token,
      body,
      headers: { "content-length": "9999999" },
    });
    assert.equal(lying.status, 413);
  });
});
