/** Limits: floods are shed, guessing is slow, and nobody who does their work ever meets one. */

import assert from "node:assert/strict";
import { createApp } from "../../supabase/functions/v2-agent-state/app.ts";
import { createApp as createVault } from "../../supabase/functions/vault/app.ts";
import { readSettings } from "../../supabase/functions/_shared/env.ts";
import { ApiError } from "../../supabase/functions/_shared/errors.ts";
import { mintLiveKey } from "../../supabase/functions/_shared/domain/credential.ts";
import { networkOf as networkOfAddress } from "../../supabase/functions/_shared/domain/public_address.ts";
import { eventually } from "../support/eventually.ts";
import { chunk, newPaidKey, newProjectToken, replicateBody } from "../support/factories.ts";
import { type Answer, onEveryBackend, onOneBackend, type World } from "../support/harness.ts";
import { newPerson } from "../support/people.ts";
import { assertRefused, newAddress, newTeam, send } from "../support/teams.ts";

const FAILURES_MAX = 600;
const WINDOW_MS = 600_000;
const HOUR_MS = 3_600_000;
const TESTS_MAX = 60;
const KEYS_MAX = 300;

onEveryBackend((test) => {
  test("a network whose credentials fail too often gets 429; a good one of that network never does", async (world) => {
    const headers = newAddress();
    const { token } = await newPaidKey(world);
    await startOfWindow();
    const first = await guess(world, headers);
    assertRefused(first, 401, "invalid_api_key");
    await fillFailures(world, headers);
    const limited = await eventually("the network is limited", async () => {
      const answer = await guess(world, headers);
      return answer.status === 429 ? answer : undefined;
    });
    assert.equal(limited.body.error, "rate_limited");
    const seconds = Number(limited.headers.get("retry-after"));
    assert.ok(seconds >= 1 && seconds <= WINDOW_MS / 1000);
    assert.equal(limited.body.retry_after_seconds, seconds);
    assert.equal(limited.headers.get("www-authenticate"), null);
    assert.equal(limited.headers.get("access-control-allow-origin"), "*");

    for (let i = 0; i < 5; i++) {
      const good = await world.request("POST", "/replicate", {
        token,
        headers,
        body: replicateBody(chunk(i)),
      });
      assert.equal(good.status, 200, good.text);
    }
    const person = await newPerson(world);
    assert.equal((await world.request("GET", "/api-keys", { token: person.token, headers })).status, 200);
    assertRefused(await guess(world, newAddress()), 401, "invalid_api_key");
  });
});

onOneBackend((test) => {
  test("failing credentials are counted: after so many in ten minutes, not before", async (world) => {
    const headers = newAddress();
    const window = await startOfWindow();
    await fillFailures(world, headers, FAILURES_MAX - 40);
    const statuses = await inTurn(40, () => guess(world, headers));
    assert.ok(statuses.every((status) => status === 401));
    await eventually("the next are limited", async () => (await guess(world, headers)).status === 429);
    const counted = await failuresOf(world, headers);
    for (let i = 0; i < 50; i++) await guess(world, headers);
    if (Math.floor(Date.now() / WINDOW_MS) === window) {
      assert.ok(counted >= FAILURES_MAX);
      assert.equal(
        await failuresOf(world, headers),
        counted,
        "a network that is limited costs the database nothing",
      );
    }
  });

  test("every class of credential counts, and a claim to come from elsewhere changes nothing", async (world) => {
    const headers = newAddress();
    await startOfWindow();
    await fillFailures(world, headers);
    await eventually("it is limited", async () => (await guess(world, headers)).status === 429);
    const forged = { "x-forwarded-for": `203.0.113.9, ${headers["x-forwarded-for"]}` };
    const expired = await world.issuer.token("somebody", { claims: { exp: 1_000_000_000 } });
    const tries: [string, string, string][] = [
      ["GET", "/head", mintLiveKey((count) => crypto.getRandomValues(new Uint8Array(count)))],
      ["GET", "/settings", expired],
      ["GET", "/settings", "a.b.c"],
    ];
    for (const [method, path, token] of tries) {
      assertRefused(await world.request(method, path, { token, headers: forged }), 429, "rate_limited");
    }
    const nothing = await world.request("GET", "/head", { headers: forged });
    assertRefused(nothing, 401, "missing_or_invalid_bearer_token", "who sends nothing is told what to send");
    const wrongClass = await world.request("GET", "/settings", { headers: forged, token: newProjectToken() });
    assertRefused(wrongClass, 401, "session_jwt_required");
  });

  test("a refusal stands when the counter is away", async (world) => {
    const { db } = world.platform;
    const away = world.with({
      db: {
        ...db,
        call: (name, args) =>
          name === "hit_rate_limit"
            ? Promise.reject(new ApiError("service_unavailable"))
            : db.call(name, args),
      },
    });
    assertRefused(await guess(away, newAddress()), 401, "invalid_api_key");
    const garbage = { token: "sov_live_garbage", headers: newAddress() };
    assertRefused(await away.request("GET", "/head", garbage), 401, "invalid_api_key");
  });

  test("tests of a webhook are limited for each person, and say when to come back", async (world) => {
    const [person, other] = [await newPerson(world), await newPerson(world)];
    const hour = Math.floor(Date.now() / HOUR_MS);
    const test = (by: typeof person) => send(world, by, "POST", `/webhooks/${crypto.randomUUID()}/test`);
    const statuses: number[] = [];
    for (let i = 0; i < TESTS_MAX + 3; i++) statuses.push((await test(person)).status);
    if (Math.floor(Date.now() / HOUR_MS) === hour) {
      assert.deepEqual(statuses, [...Array(TESTS_MAX).fill(404), 429, 429, 429]);
      assert.ok(Number((await test(person)).headers.get("retry-after")) >= 1);
    }
    assert.equal((await test(other)).status, 404);
  });

  test("keys are limited for each person, sub-keys among them; a wrong body costs nothing", async (world) => {
    const person = await newPerson(world);
    const team = await newTeam(world, person);
    const hour = Math.floor(Date.now() / HOUR_MS);
    for (let i = 0; i < 20; i++) {
      assert.equal((await send(world, person, "POST", "/api-keys", {})).status, 400);
    }
    const body = { name: "agent" };
    for (let i = 0; i < KEYS_MAX; i += 2) {
      assert.equal((await send(world, person, "POST", "/api-keys", body)).status, 201);
      assert.equal((await send(world, person, "POST", `/teams/${team.id}/subkeys`, body)).status, 201);
    }
    const more = [
      await send(world, person, "POST", "/api-keys", body),
      await send(world, person, "POST", `/teams/${team.id}/subkeys`, body),
    ];
    if (Math.floor(Date.now() / HOUR_MS) === hour) {
      for (const answer of more) assertRefused(answer, 429, "rate_limited");
    }
    const keys = await send(world, person, "GET", "/api-keys");
    assert.equal(keys.status, 200, "reading is not limited");
  });

  test("a flood is shed in memory, with a time to come back; others, and other networks, go on", async (world) => {
    const service = world.with({ settings: { requestsPerSecond: 50 }, db: counting(world) });
    const headers = newAddress();
    const flood = await Promise.all(
      Array.from(
        { length: 300 },
        () => service.request("GET", "/snapshot/agent/latest", { token: newProjectToken(), headers }),
      ),
    );
    const shed = flood.filter(({ status }) => status === 429);
    assert.ok(shed.length >= 50 && shed.length <= 100, `${shed.length} were shed`);
    assert.equal(calls, flood.length - shed.length, "what is shed asks the database nothing");
    for (const answer of shed) {
      assert.equal(answer.body.error, "rate_limited");
      assert.match(answer.headers.get("retry-after")!, /^[1-9]\d*$/);
      assert.ok(answer.headers.get("x-request-id"));
      assert.equal(answer.headers.get("access-control-allow-origin"), "*");
    }
    const other = await service.request("GET", "/metadata", {
      token: newProjectToken(),
      headers: newAddress(),
    });
    assert.equal(other.status, 200);
  });

  test("a key that has worked goes on working while its neighbours flood; what is made up does not", async (world) => {
    const service = world.with({ settings: { requestsPerSecond: 5 } });
    const headers = newAddress();
    const { token } = await newPaidKey(world);
    const read = (token: string) => service.request("GET", "/metadata", { token, headers });
    const madeUp = newProjectToken();
    assert.deepEqual([(await read(token)).status, (await read(madeUp)).status], [200, 200]);
    await inTurn(20, () => guess(service, headers));
    for (let i = 0; i < 10; i++) assert.equal((await read(token)).status, 200);
    const others = [
      await read(madeUp),
      await guess(service, headers),
      await service.request("GET", "/head", { headers }),
    ];
    for (const answer of others) assertRefused(answer, 429, "rate_limited");
    const statuses = await inTurn(40, () => read(token));
    assert.ok(statuses.includes(429), "it has a limit of its own");
  });

  test("refusals cost a network ten times as much; without one each credential has its own limit", async (world) => {
    const service = world.with({ settings: { requestsPerSecond: 5 } });
    const [busy, quiet] = [newProjectToken(), newProjectToken()];
    const statuses = await inTurn(30, () => service.request("GET", "/metadata", { token: busy }));
    assert.ok(statuses.filter((status) => status === 200).length >= 20);
    assert.ok(statuses.includes(429));
    assert.equal((await service.request("GET", "/metadata", { token: quiet })).status, 200);
    const [lost, headers] = [newProjectToken(), newAddress()];
    const wrong = await inTurn(10, () => service.request("GET", "/nothing", { token: lost, headers }));
    assert.ok(wrong.filter((status) => status === 404).length <= 4, wrong.join());
    const own = await inTurn(10, () => service.request("GET", "/nothing", { token: newProjectToken() }));
    assert.ok(own.every((status) => status === 404), own.join());
  });

  test("0 switches it off, and by default not even a benchmark meets it", async (world) => {
    const off = world.with({ settings: { requestsPerSecond: 0 } });
    const token = newProjectToken();
    assert.ok(
      (await inTurn(300, () => off.request("GET", "/metadata", { token }))).every((each) => each === 200),
    );
    const agents = Array.from({ length: 8 }, newProjectToken);
    const answers = await Promise.all(
      agents.map((agent) =>
        inTurn(
          250,
          () =>
            world.request("GET", "/metadata", { token: agent, headers: { "x-forwarded-for": "192.0.2.1" } }),
        )
      ),
    );
    assert.ok(answers.flat().every((status) => status === 200));
  });

  test("this machine's own programs may fail as often as they like: it is theirs to load", async (world) => {
    const app = createApp(world.platform, readSettings({ TRUSTED_PROXIES: "0" }));
    const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, app.fetch);
    const headers = { authorization: `Bearer ${mintLiveKey((count) => new Uint8Array(count).fill(7))}` };
    for (let i = 0; i < 3; i++) {
      const answer = await fetch(`http://127.0.0.1:${server.addr.port}/head`, { headers });
      await answer.body?.cancel();
      assert.equal(answer.status, 401);
    }
    await server.shutdown();
    const { rows } = await world.sql.query(
      "select 1 from app.rate_limits where bucket = sha256(convert_to('failed credentials 127.0.0.1', 'UTF8'))",
    );
    assert.equal(rows.length, 0);
  });

  test("the vault stands behind the same limits", async (world) => {
    const vault = createVault(world.platform, readSettings({ RATE_LIMIT_PER_SECOND: "2" }));
    const ask = async () => (await vault.request("http://service.test/vault/nothing")).status;
    const statuses = await inTurn(12, async () => ({ status: await ask() }));
    assert.ok(statuses.includes(404) && statuses.at(-1) === 429, statuses.join());
  });
});

/** Calls of the database that {@link counting} has seen. */
let calls = 0;

function counting(world: World): World["platform"]["db"] {
  const { db } = world.platform;
  calls = 0;
  return {
    ...db,
    call(name, args) {
      if (name === "read_snapshot") calls++;
      return db.call(name, args);
    },
  };
}

/** A key that nobody was given, with a checksum that is right. */
function guess(service: Pick<World, "request">, headers: Record<string, string>): Promise<Answer> {
  const token = mintLiveKey((count) => crypto.getRandomValues(new Uint8Array(count)));
  return service.request("GET", "/head", { token, headers });
}

async function inTurn(count: number, work: () => Promise<{ status: number }>): Promise<number[]> {
  const statuses: number[] = [];
  for (let i = 0; i < count; i++) statuses.push((await work()).status);
  return statuses;
}

/** The bucket that the failures of a network are counted in, as they stand. */
async function failuresOf(world: World, headers: Record<string, string>): Promise<number> {
  const { rows } = await world.sql.query(
    "select hits from app.rate_limits where bucket = sha256(convert_to($1, 'UTF8')) order by window_start desc",
    [`failed credentials ${networkOf(headers["x-forwarded-for"]!)}`],
  );
  return rows[0]?.hits ?? 0;
}

/** Lets a network fail as often as it may, or so often. */
async function fillFailures(
  world: World,
  headers: Record<string, string>,
  failures = FAILURES_MAX,
): Promise<void> {
  await guess(world, headers);
  await eventually("it is counted", async () => await failuresOf(world, headers) > 0);
  await world.sql.query(
    "update app.rate_limits set hits = $2 where bucket = sha256(convert_to($1, 'UTF8'))",
    [`failed credentials ${networkOf(headers["x-forwarded-for"]!)}`, failures],
  );
}

/** `2001:db8:a:b::1, 10.0.0.1` is somebody in `2001:db8:a:b::/64`. */
function networkOf(forwardedFor: string): string {
  return networkOfAddress(forwardedFor.split(",")[0]!)!;
}

/** Waits for the next window of ten minutes when this one is nearly over; returns which one it is. */
async function startOfWindow(): Promise<number> {
  const leftMs = WINDOW_MS - Date.now() % WINDOW_MS;
  if (leftMs < 10_000) await new Promise((resolve) => setTimeout(resolve, leftMs + 100));
  return Math.floor(Date.now() / WINDOW_MS);
}
