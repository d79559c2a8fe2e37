/** Keys for agents, made and taken back by the person they belong to. Spec 2.7 and 4.4. */

import assert from "node:assert/strict";
import { eventually } from "../support/eventually.ts";
import { balanceOf, chunk, replicateBody, sha256Hex, snapshotBody } from "../support/factories.ts";
import { type Answer, onEveryBackend, type World } from "../support/harness.ts";
import { newPerson, type Person } from "../support/people.ts";

const ISO = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const NOT_NAMES = ["", "x".repeat(129), "🔑".repeat(129), 7, null, true, ["agent"], {}, "a\0b", "a\ud800b"];
const NOT_KEYS = ["not-a-uuid", "3f8e1c52", "%00", "'--", "🔑", "00000000-0000-0000-0000-000000000000"];

/** Every route that an agent's key opens. */
const AGENT_ROUTES: [string, string, () => unknown][] = [
  ["POST", "/snapshot", () => snapshotBody({ agent_id: crypto.randomUUID() })],
  ["GET", "/snapshot/agent/latest", () => undefined],
  ["GET", "/snapshot/agent/lineage", () => undefined],
  ["GET", "/snapshot/agent/0", () => undefined],
  ["POST", "/replicate", () => replicateBody(chunk(1))],
  ["GET", "/head", () => undefined],
  ["GET", "/replay?since=0", () => undefined],
  ["GET", "/metadata", () => undefined],
  ["GET", "/envelopes", () => undefined],
];

onEveryBackend((test) => {
  test("POST /api-keys answers 201 with the key, its form, and its secret", async (world) => {
    const { token } = await newPerson(world);
    const { status, body } = await createKey(world, token, "laptop");
    assert.equal(status, 201);
    assert.deepEqual(Object.keys(body).sort(), [
      "created_at",
      "id",
      "label",
      "masked_key",
      "prefix",
      "raw_secret",
    ]);
    assert.match(body.id, UUID);
    assert.deepEqual([body.label, body.prefix], ["laptop", "sov_live_"]);
    assert.match(body.raw_secret, /^sov_live_[0-9A-Za-z]{43}[0-9A-Za-z]{6}$/);
    assert.equal(body.masked_key, `sov_live_…${body.raw_secret.slice(-4)}`);
    assert.match(body.created_at, ISO);
    assert.ok(Math.abs(Date.parse(body.created_at) - Date.now()) < 60_000);
    const { rows } = await world.sql.query("select * from app.api_keys where id = $1", [body.id]);
    assert.equal(rows[0].key_hash.toString("hex"), sha256Hex(body.raw_secret));
  });

  test("POST /api-keys makes another key every time, with the same name too", async (world) => {
    const { token } = await newPerson(world);
    const answers = await Promise.all(Array.from({ length: 20 }, () => createKey(world, token, "same")));
    assert.deepEqual(new Set(answers.map((answer) => answer.status)), new Set([201]));
    for (const field of ["id", "raw_secret"]) {
      assert.equal(new Set(answers.map((answer) => answer.body[field])).size, 20, field);
    }
    assert.equal((await world.request("GET", "/api-keys", { token })).body.length, 20);
  });

  test("a key's secret is in no answer but the one that made it", async (world) => {
    const { token } = await newPerson(world);
    const { body: { id, raw_secret } } = await createKey(world, token);
    const use = await world.request("POST", "/snapshot", { token: raw_secret, body: snapshotBody() });
    assert.equal(use.status, 402);
    const later = [
      use,
      await createKey(world, token),
      await world.request("GET", "/api-keys", { token }),
      await world.request("DELETE", `/api-keys/${id}`, { token }),
      await world.request("DELETE", `/api-keys/${id}`, { token }),
      await world.request("GET", "/api-keys", { token }),
      await world.request("GET", "/head", { token: raw_secret }),
    ];
    for (const answer of later) {
      assert.ok(!answer.text.includes(raw_secret.slice(9, 40)), answer.text);
      assert.ok(!answer.text.includes(sha256Hex(raw_secret)), answer.text);
    }
  });

  test("POST /api-keys takes names of 1 to 128 characters, whatever they are", async (world) => {
    const { token } = await newPerson(world);
    for (
      const name of ["x", " ", "x".repeat(128), "🔑".repeat(128), "'; drop table x; --", "\u202e\n\u0001"]
    ) {
      const { status, body } = await createKey(world, token, name);
      assert.deepEqual([status, body.label], [201, name]);
    }
  });

  test("POST /api-keys refuses what is no name, and makes no key", async (world) => {
    const { token } = await newPerson(world);
    for (const name of NOT_NAMES) {
      const answer = await createKey(world, token, name);
      assert.deepEqual([answer.status, answer.body.error], [400, "invalid_field:name"], JSON.stringify(name));
    }
    for (
      const [body, code] of [["{", "invalid_json"], ["[]", "invalid_json"], ["{}", "missing_field:name"]]
    ) {
      const answer = await world.request("POST", "/api-keys", { token, body });
      assert.deepEqual([answer.status, answer.body.error], [400, code]);
    }
    const huge = await createKey(world, token, "x".repeat(70_000));
    assert.deepEqual([huge.status, huge.body.error], [413, "body_too_large"]);
    assert.deepEqual((await world.request("GET", "/api-keys", { token })).body, []);
  });

  test("GET /api-keys lists all keys of the caller, newest first, active and revoked", async (world) => {
    const { token } = await newPerson(world);
    assert.deepEqual((await world.request("GET", "/api-keys", { token })).body, []);
    const made = [];
    for (const name of ["first", "second", "third"]) made.push((await createKey(world, token, name)).body);
    const revoked = await world.request("DELETE", `/api-keys/${made[1].id}`, { token });
    const { status, body } = await world.request("GET", "/api-keys", { token });
    assert.equal(status, 200);
    assert.deepEqual(
      body,
      made.reverse().map(({ id, label, created_at }) => ({
        id,
        label,
        prefix: "sov_live_",
        created_at,
        revoked_at: label === "second" ? revoked.body.revoked_at : null,
        last_used_at: null,
        state: label === "second" ? "revoked" : "active",
      })),
    );
  });

  test("DELETE /api-keys/:id works at the very next request, on every route of an agent", async (world) => {
    const { token } = await newPaidPerson(world);
    const { body: { id, raw_secret } } = await createKey(world, token);
    const { body: other } = await createKey(world, token);
    await world.request("POST", "/snapshot", { token: raw_secret, body: snapshotBody() });
    await world.request("POST", "/replicate", { token: raw_secret, body: replicateBody(chunk(0)) });
    for (const [method, path, body] of AGENT_ROUTES) {
      const answer = await world.request(method, path, { token: raw_secret, body: body() });
      assert.equal(answer.status, 200, `${method} ${path}`);
    }
    const { status, body } = await world.request("DELETE", `/api-keys/${id}`, { token });
    assert.equal(status, 200);
    assert.match(body.revoked_at, ISO);
    assert.deepEqual(body, { id, revoked_at: body.revoked_at, message: "api_key_revoked" });
    for (const [method, path, body] of AGENT_ROUTES) {
      const answer = await world.request(method, path, { token: raw_secret, body: body() });
      assert.deepEqual([answer.status, answer.body.error], [401, "api_key_revoked"], `${method} ${path}`);
      const kept = await world.request(method, path, { token: other.raw_secret, body: body() });
      assert.notEqual(kept.status, 401, `${method} ${path}`);
    }
  });

  test("DELETE /api-keys/:id answers the first time again, however often and concurrently", async (world) => {
    const { token } = await newPerson(world);
    const { body: { id } } = await createKey(world, token);
    const path = `/api-keys/${id}`;
    const together = await Promise.all(
      Array.from({ length: 8 }, () => world.request("DELETE", path, { token })),
    );
    const { rows } = await world.sql.query("select clock_timestamp() as now");
    await eventually("the clock moved on", () => Date.now() > rows[0].now.getTime() + 1);
    const later = await world.request("DELETE", `/api-keys/${id.toUpperCase()}`, { token });
    for (const answer of [...together, later]) {
      assert.deepEqual([answer.status, answer.text], [200, together[0]!.text]);
    }
  });

  test("DELETE /api-keys/:id answers 404 api_key_not_found for another person's key, which goes on working", async (world) => {
    const [owner, stranger] = [await newPaidPerson(world), await newPerson(world)];
    const { body: { id, raw_secret } } = await createKey(world, owner.token);
    assertNotFound(await world.request("DELETE", `/api-keys/${id}`, { token: stranger.token }));
    assert.deepEqual((await world.request("GET", "/api-keys", { token: stranger.token })).body, []);
    const use = await world.request("POST", "/snapshot", { token: raw_secret, body: snapshotBody() });
    assert.equal(use.status, 200);
    await world.request("DELETE", `/api-keys/${id}`, { token: owner.token });
    assertNotFound(await world.request("DELETE", `/api-keys/${id}`, { token: stranger.token }));
  });

  test("DELETE /api-keys/:id answers 404 api_key_not_found for what is no key", async (world) => {
    const { token } = await newPerson(world);
    for (const id of [...NOT_KEYS.map(encodeURI), crypto.randomUUID(), "%2e%2e%2f", "x".repeat(5_000)]) {
      assertNotFound(await world.request("DELETE", `/api-keys/${id}`, { token }));
    }
  });

  test("a key that was made here writes, and its account pays the exact price", async (world) => {
    const { token, accountId } = await newPaidPerson(world, 1_000);
    const { body: { raw_secret } } = await createKey(world, token);
    const stored = await world.request("POST", "/snapshot", {
      token: raw_secret,
      body: snapshotBody({}, new Uint8Array(1_001).fill(7)),
    });
    assert.deepEqual([stored.status, stored.body.cost_milli], [200, 46]);
    assert.equal(await balanceOf(world, accountId), 954);
    const block = replicateBody(chunk(0, new Uint8Array(2_000).fill(7)));
    const written = await world.request("POST", "/replicate", { token: raw_secret, body: block });
    assert.deepEqual([written.status, await balanceOf(world, accountId)], [200, 864]);
    const latest = await world.request("GET", "/snapshot/agent/latest", { token: raw_secret });
    assert.deepEqual(latest.body.receipt, stored.body);
    const spent = await world.request("POST", "/replicate", {
      token: raw_secret,
      body: replicateBody(chunk(1, new Uint8Array(20_000))),
    });
    assert.deepEqual([spent.status, spent.body.error], [402, "insufficient_credits"]);
    assert.equal(await balanceOf(world, accountId), 864);
  });

  test("GET /api-keys shows the last use to the minute, and a busy key is not written at every request", async (world) => {
    const { token } = await newPaidPerson(world);
    const { body: { id, raw_secret } } = await createKey(world, token);
    const row = async () => {
      const { rows } = await world.sql.query(
        "select xmin::text, last_used_at, date_trunc('minute', now()) as minute from app.api_keys where id = $1",
        [id],
      );
      return rows[0];
    };
    let sequence = 0;
    const write = async () => {
      const body = replicateBody(chunk(sequence++));
      assert.equal((await world.request("POST", "/replicate", { token: raw_secret, body })).status, 200);
    };
    await eventually("twenty requests in one minute", async () => {
      await write();
      const before = await row();
      for (let i = 0; i < 20; i++) await write();
      await world.request("GET", "/metadata", { token: raw_secret });
      const after = await row();
      if (after.minute.getTime() !== before.last_used_at.getTime()) return false;
      assert.deepEqual(after, before);
      return true;
    });
    const { body: [shown] } = await world.request("GET", "/api-keys", { token });
    assert.match(shown.last_used_at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:00\.000Z$/);
    assert.ok(Math.abs(Date.parse(shown.last_used_at) - Date.now()) < 120_000);
    assert.equal(shown.last_used_at, (await row()).last_used_at.toISOString());
  });

  test("a key outlives its account only to say 401 owner_not_found, even when the person comes back", async (world) => {
    const person = await newPaidPerson(world);
    const { body: { raw_secret } } = await createKey(world, person.token);
    await world.request("POST", "/snapshot", { token: raw_secret, body: snapshotBody() });
    await world.sql.query("delete from app.owners where id = $1", [person.accountId]);
    for (const back of [false, true]) {
      if (back) assert.deepEqual((await world.request("GET", "/api-keys", person)).body, []);
      for (const [method, path, body] of AGENT_ROUTES) {
        const answer = await world.request(method, path, { token: raw_secret, body: body() });
        assert.deepEqual([answer.status, answer.body.error], [401, "owner_not_found"], `${method} ${path}`);
      }
    }
  });
});

/** Somebody with credit. */
async function newPaidPerson(
  world: World,
  creditsMilli = 1_000_000,
): Promise<Person & { accountId: string }> {
  const person = await newPerson(world);
  const { account_id } = await world.platform.db.call<{ account_id: string }>("grant_credits", {
    p_subject: person.subject,
    p_amount_milli: creditsMilli,
    p_actor: "test",
    p_note: "opening balance",
    p_reference: crypto.randomUUID(),
  });
  return { ...person, accountId: account_id };
}

function createKey(world: World, token: string, name: unknown = "agent"): Promise<Answer> {
  return world.request("POST", "/api-keys", { token, body: { name } });
}

function assertNotFound(answer: Answer): void {
  assert.deepEqual([answer.status, answer.body.error], [404, "api_key_not_found"], answer.text);
}
