/** Settings, telemetry, the salt and the account itself of a person who has signed in. Spec 2.10, 2.11, 4.7, 4.8. */

import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { type Answer, onEveryBackend, type World } from "../support/harness.ts";
import { accountIdOf, newPerson, type Person } from "../support/people.ts";

const DEFAULTS = {
  project_name: "",
  project_desc: "",
  session_lock: false,
  hosted_sync: true,
  telemetry_opt_in: false,
};
const TEXTS = { project_name: 128, project_desc: 2_000 };
const FLAGS = ["session_lock", "hosted_sync", "telemetry_opt_in"];
const NOT_TEXT = [null, 7, true, [], {}, ["x"], "a\0b", "a\ud800b"];
const NOT_FLAGS = [null, 0, 1, "true", "false", "", [], {}];

const COUNTS = ["memory_count", "device_count", "bytes_stored", "sync_ops"];
const NOT_COUNTS = [-1, 0.5, 1e308, 2 ** 53, "1", "", null, true, [], {}, [1]];
/** Bodies that the first gate hides; `{}` alone would have been good. */
const HIDDEN = [
  "",
  "{",
  "null",
  "[]",
  "{}",
  '{"memory":"secret"}',
  '{"sync_ops":-1}',
  "\ufffd",
  "x".repeat(60_000),
];

/** Timestamps, and the day that each is kept under. */
const WINDOWS: [string, string][] = [
  ["2026-11-20", "2026-11-20"],
  ["2026-11-20T00:00:00.000Z", "2026-11-20"],
  ["2026-11-20T23:59:59.999999Z", "2026-11-20"],
  ["2026-11-20T23:30:00-01:00", "2026-11-21"],
  ["2026-11-20T00:30:00+01:00", "2026-11-19"],
  ["2024-02-29T12:00Z", "2024-02-29"],
  ["2026-11-20T23:30:00", "2026-11-20"],
  ["1970-01-01", "1970-01-01"],
  ["9999-12-31T23:59:59Z", "9999-12-31"],
];
const NOT_WINDOWS = [
  ...["", "today", "2026", "2026-11", "20261120", "2026-13-01", "2026-11-32", "2026-02-30", "2026-11-20T"],
  ...["2026-11-20T25:00:00Z", "2026-11-20T12:00:00+99:99", "2026-11-20Tnoon", "2026-11-20\0", " 2026-11-20"],
  ...["0000-01-01", "0000-00-00", "1969-12-31T23:59:59Z", "-000001-01-01", "+010000-01-01T00:00:00Z"],
  ...["+275760-09-13T00:00:00Z", "9999-12-31T23:59:59-23:59", "２０２６-11-20", "infinity", "now", "epoch"],
  ...["2026-11-20T00:00:00Z; drop table x", "2026-11-20T12:00:00 (noon)", `2026-11-20T${"0".repeat(9_999)}`],
  ...[null, 0, 1_795_000_000, 1.5, true, [], {}, ["2026-11-20"]],
];

onEveryBackend((test) => {
  test("GET /settings answers the defaults, and does not save them", async (world) => {
    const person = await newPerson(world);
    const { token } = person;
    const { status, body } = await world.request("GET", "/settings", { token });
    assert.deepEqual([status, body], [200, { settings: DEFAULTS }]);
    assert.equal((await rowsOf(world, "settings", person)).length, 0);
  });

  test("PUT /settings changes what is given, ignores what it does not know, and answers everything", async (world) => {
    const { token } = await newPerson(world);
    let expected = DEFAULTS;
    const changes: Record<string, unknown>[] = [
      {},
      { project_name: "Müsli 🦀" },
      { session_lock: true, hosted_sync: false },
      { unknown: 1, project_desc: "what\nit is", toString: null, user_id: "other", updated_at: "x" },
      { project_name: "", telemetry_opt_in: true },
      { session_lock: false },
    ];
    for (const change of changes) {
      const known = Object.entries(change).filter(([field]) => Object.hasOwn(DEFAULTS, field));
      expected = { ...expected, ...Object.fromEntries(known) };
      const { status, body } = await world.request("PUT", "/settings", { token, body: change });
      assert.deepEqual([status, body], [200, { settings: expected }]);
      assert.deepEqual((await world.request("GET", "/settings", { token })).body, { settings: expected });
    }
    const stranger = await newPerson(world);
    assert.deepEqual((await world.request("GET", "/settings", stranger)).body, { settings: DEFAULTS });
  });

  test("PUT /settings with a wrong type answers 400 invalid_field:<field>, and saves none of the good fields", async (world) => {
    const { token } = await newPerson(world);
    const wrong: [string, unknown][] = [
      ...Object.entries(TEXTS).flatMap(([field, most]): [string, unknown][] =>
        [...NOT_TEXT, "x".repeat(most + 1), "🦀".repeat(most + 1)].map((value) => [field, value])
      ),
      ...FLAGS.flatMap((field) => NOT_FLAGS.map((value): [string, unknown] => [field, value])),
    ];
    const good = { project_name: "new", project_desc: "new", session_lock: true, hosted_sync: false };
    for (const [field, value] of wrong) {
      const body = { ...good, telemetry_opt_in: true, [field]: value };
      assertRefused(await world.request("PUT", "/settings", { token, body }), 400, `invalid_field:${field}`);
    }
    for (const body of ["", "{", "null", "[]", '"x"', "7"]) {
      assertRefused(await world.request("PUT", "/settings", { token, body }), 400, "invalid_json");
    }
    assert.deepEqual((await world.request("GET", "/settings", { token })).body, { settings: DEFAULTS });
  });

  test("PUT /settings takes texts up to their full length in characters", async (world) => {
    const { token } = await newPerson(world);
    for (const letter of ["x", "ü", "🦀"]) {
      const texts = Object.entries(TEXTS).map(([field, most]) => [field, letter.repeat(most)]);
      const { status, body } = await world.request("PUT", "/settings", {
        token,
        body: Object.fromEntries(texts),
      });
      assert.deepEqual([status, body.settings], [200, { ...DEFAULTS, ...Object.fromEntries(texts) }]);
    }
  });

  test("PUT /settings keeps every one of many concurrent changes to different fields", async (world) => {
    const { token } = await newPerson(world);
    const changed = { project_name: "n", project_desc: "d", session_lock: true, hosted_sync: false };
    const changes = Object.entries({ ...changed, telemetry_opt_in: true }).map((change) =>
      Object.fromEntries([change])
    );
    await Promise.all(changes.map((body) => world.request("PUT", "/settings", { token, body })));
    const { body } = await world.request("GET", "/settings", { token });
    assert.deepEqual(body.settings, { ...changed, telemetry_opt_in: true });
  });

  test("POST /telemetry answers 403 telemetry_disabled before anything else, until opted in and after opting out", async (world) => {
    const person = await newPerson(world);
    const { token } = person;
    const refusesAll = async () => {
      for (const body of HIDDEN) {
        assertRefused(await world.request("POST", "/telemetry", { token, body }), 403, "telemetry_disabled");
      }
    };
    await refusesAll();
    await optIn(world, token, false);
    await refusesAll();
    await optIn(world, token);
    assert.equal((await world.request("POST", "/telemetry", { token, body: {} })).status, 201);
    await optIn(world, token, false);
    await refusesAll();
    assert.equal((await rowsOf(world, "telemetry", person)).length, 1);
  });

  test("POST /telemetry answers 400 non_aggregate_field for a foreign key, whatever else is wrong", async (world) => {
    const person = await newReporter(world);
    const { token } = person;
    for (
      const key of ["memory", "MEMORY_COUNT", "", " sync_ops", "user_id", "__proto__", "constructor", "0"]
    ) {
      for (const rest of ["", ',"sync_ops":-1', ',"window_start":"junk"', ',"memory_count":1']) {
        const body = `{${JSON.stringify(key)}:"secret"${rest}}`;
        assertRefused(await world.request("POST", "/telemetry", { token, body }), 400, "non_aggregate_field");
      }
    }
    for (const body of ["", "{", "null", "[]", "[1]", '"x"']) {
      assertRefused(await world.request("POST", "/telemetry", { token, body }), 400, "invalid_json");
    }
    assert.deepEqual(await rowsOf(world, "telemetry", person), []);
  });

  test("POST /telemetry answers 400 invalid_field:<field> for what is no count and no time, and keeps nothing", async (world) => {
    const person = await newReporter(world);
    const { token } = person;
    const wrong: [string, unknown][] = [
      ...COUNTS.flatMap((field) => NOT_COUNTS.map((value): [string, unknown] => [field, value])),
      ...NOT_WINDOWS.map((value): [string, unknown] => ["window_start", value]),
    ];
    for (const [field, value] of wrong) {
      const body = { ...Object.fromEntries(COUNTS.map((count) => [count, 1])), [field]: value };
      const answer = await world.request("POST", "/telemetry", { token, body });
      assertRefused(answer, 400, `invalid_field:${field}`, `${JSON.stringify(value)?.slice(0, 60)}`);
    }
    assert.deepEqual(await rowsOf(world, "telemetry", person), []);
  });

  test("POST /telemetry answers 201 with the aggregate of today, counts being 0 until they are reported", async (world) => {
    const { subject, token } = await newReporter(world);
    const today = new Date().toISOString().slice(0, 10);
    const { status, body } = await world.request("POST", "/telemetry", { token, body: { sync_ops: 3 } });
    assert.equal(status, 201);
    const { reported_at, window_start, ...counts } = body.aggregate;
    assert.deepEqual(Object.keys(body), ["aggregate"]);
    assert.deepEqual(counts, {
      user_id: subject,
      memory_count: 0,
      device_count: 0,
      bytes_stored: 0,
      sync_ops: 3,
    });
    assert.ok([today, new Date().toISOString().slice(0, 10)].includes(window_start.slice(0, 10)));
    assert.match(window_start, /T00:00:00\.000Z$/);
    assert.match(reported_at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    assert.ok(Math.abs(Date.parse(reported_at) - Date.now()) < 60_000);
  });

  test("POST /telemetry keeps one row for each UTC day, and the counts that a report does not mention", async (world) => {
    const person = await newReporter(world);
    const { token } = person;
    const most = Number.MAX_SAFE_INTEGER;
    const reports: [Record<string, unknown>, number[]][] = [
      [{ memory_count: 1, device_count: 2, bytes_stored: most, sync_ops: 4 }, [1, 2, most, 4]],
      [{ window_start: "2026-11-20T23:00:00Z", sync_ops: 5 }, [1, 2, most, 5]],
      [{ window_start: "2026-11-20T23:00:00+02:00", bytes_stored: 0, memory_count: 7 }, [7, 2, 0, 5]],
      [{}, [7, 2, 0, 5]],
    ];
    for (const [report, expected] of reports) {
      const body = { window_start: "2026-11-20", ...report };
      const answer = await world.request("POST", "/telemetry", { token, body });
      assert.deepEqual([answer.status, answer.body.aggregate.window_start], [
        201,
        "2026-11-20T00:00:00.000Z",
      ]);
      assert.deepEqual(COUNTS.map((count) => answer.body.aggregate[count]), expected);
    }
    const next = await world.request("POST", "/telemetry", { token, body: { window_start: "2026-11-21" } });
    assert.deepEqual(COUNTS.map((count) => next.body.aggregate[count]), [0, 0, 0, 0]);
    await Promise.all(Array.from({ length: 16 }, async (_, i) => {
      const body = { window_start: `2026-11-22T${10 + i % 8}:00:00Z`, sync_ops: i };
      assert.equal((await world.request("POST", "/telemetry", { token, body })).status, 201);
    }));
    assert.equal((await rowsOf(world, "telemetry", person)).length, 3);
  });

  test("POST /telemetry keys any timestamp by its UTC day", async (world) => {
    for (const [window_start, day] of WINDOWS) {
      const person = await newReporter(world);
      const { token } = person;
      const answer = await world.request("POST", "/telemetry", { token, body: { window_start } });
      assert.equal(answer.status, 201, `${window_start}: ${answer.text}`);
      assert.equal(answer.body.aggregate.window_start, `${day}T00:00:00.000Z`, window_start);
      assert.equal((await rowsOf(world, "telemetry", person)).length, 1);
    }
  });

  test("GET /account/kdf-salt and /kdf-salt answer 32 bytes, the same for ever and nobody else's", async (world) => {
    const people = [await newPerson(world), await newPerson(world)];
    const salts = new Set<string>();
    for (const { subject, token } of people) {
      const first = await world.request("GET", "/kdf-salt", { token });
      assert.deepEqual([first.status, Object.keys(first.body)], [200, ["kdf_salt"]]);
      const bytes = Buffer.from(first.body.kdf_salt, "base64");
      assert.deepEqual([bytes.length, bytes.toString("base64")], [32, first.body.kdf_salt]);
      const renewed = await world.issuer.token(subject, { claims: { email: "new@example.test" } });
      for (const path of ["/account/kdf-salt", "/kdf-salt", "/account/kdf-salt"]) {
        assert.equal((await world.request("GET", path, { token: renewed })).text, first.text);
      }
      salts.add(first.body.kdf_salt);
    }
    assert.equal(salts.size, 2);
  });

  test("32 first requests for a salt at once all get the same one, of a new person and of a known one", async (world) => {
    for (const known of [false, true, true, true]) {
      const { token } = await newPerson(world);
      if (known) await world.request("GET", "/settings", { token });
      const answers = await Promise.all(
        Array.from(
          { length: 32 },
          (_, i) => world.request("GET", i % 2 === 0 ? "/kdf-salt" : "/account/kdf-salt", { token }),
        ),
      );
      assert.deepEqual(new Set(answers.map((answer) => answer.status)), new Set([200]));
      assert.equal(new Set(answers.map((answer) => answer.body.kdf_salt)).size, 1);
      assert.equal((await world.request("GET", "/kdf-salt", { token })).text, answers[0]!.text);
    }
  });

  test("a person's first requests make one account, however many there are at once", async (world) => {
    const { subject, token } = await newPerson(world);
    const paths = ["/settings", "/api-keys", "/kdf-salt", "/billing/usage", "/billing/subscription"];
    const answers = await Promise.all(
      Array.from({ length: 32 }, (_, i) => world.request("GET", paths[i % paths.length]!, { token })),
    );
    assert.deepEqual(new Set(answers.map((answer) => answer.status)), new Set([200]));
    const { rows } = await world.sql.query(
      `select (select count(*)::int from app.accounts where subject = $1) as accounts,
              (select count(*)::int from app.owners o
                where not exists (select from app.accounts a where a.id = o.id)) as orphans`,
      [subject],
    );
    assert.deepEqual(rows[0], { accounts: 1, orphans: 0 });
  });

  test("the e-mail address of an account is what the issuer said last", async (world) => {
    const { subject } = await newPerson(world);
    for (
      const [email, kept] of [
        [undefined, null],
        ["first@example.test", "first@example.test"],
        ["second@example.test", "second@example.test"],
        [undefined, "second@example.test"],
        [7, "second@example.test"],
        ["a\0b", "second@example.test"],
      ]
    ) {
      const token = await world.issuer.token(subject, { claims: { email } });
      assert.equal((await world.request("GET", "/settings", { token })).status, 200);
      const { rows } = await world.sql.query("select email from app.accounts where subject = $1", [subject]);
      assert.deepEqual(rows, [{ email: kept }]);
    }
  });
});

/** Somebody who has opted in to telemetry. */
async function newReporter(world: World) {
  const person = await newPerson(world);
  await optIn(world, person.token);
  return person;
}

async function optIn(world: World, token: string, telemetry_opt_in = true): Promise<void> {
  const answer = await world.request("PUT", "/settings", { token, body: { telemetry_opt_in } });
  assert.equal(answer.body.settings.telemetry_opt_in, telemetry_opt_in);
}

async function rowsOf(world: World, table: "settings" | "telemetry", person: Person): Promise<unknown[]> {
  const accountId = await accountIdOf(world, person);
  return (await world.sql.query(`select * from app.${table} where account_id = $1`, [accountId])).rows;
}

function assertRefused(answer: Answer, status: number, code: string, message = ""): void {
  assert.deepEqual([answer.status, answer.body?.error], [status, code], `${message} ${answer.text}`);
}
