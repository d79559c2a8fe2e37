/** Deliveries when all goes well and when it does not: each arrives at least once, and nobody waits for another. */

import assert from "node:assert/strict";
import { deliverWebhooks } from "../../supabase/functions/_shared/flows/deliver_webhooks.ts";
import { openWebhookSender } from "../../supabase/functions/_shared/platform/webhook_sender.ts";
import { eventually } from "../support/eventually.ts";
import { onOneBackend, type World } from "../support/harness.ts";
import { accountIdOf, newPerson } from "../support/people.ts";
import {
  deliveriesOf,
  emit,
  forgetPending,
  type Hook,
  hookRow,
  isSignedBy,
  makeDue,
  newHook,
  type Received,
  SETTINGS,
  startReceiver,
} from "../support/hooks.ts";

const SCHEDULE_SECONDS = [5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400];

const run = (world: Pick<World, "platform">, limit = 100) => deliverWebhooks(world.platform, SETTINGS, limit);
const typesOf = (received: Received[]) => received.map(({ body }) => JSON.parse(body).type);

/** One event to a webhook whose endpoint answers `status`, delivered once; what became of it. */
async function deliverOnce(world: World, status: number, headers: Record<string, string> = {}) {
  await using receiver = startReceiver(() => new Response(null, { status, headers }));
  const hook = await newHook(world, receiver.url);
  await emit(world, hook.accountId);
  const report = await run(world);
  const [delivery] = await deliveriesOf(world, hook.id);
  const waitSeconds = (delivery.next_attempt_at.getTime() - Date.now()) / 1000;
  await forgetPending(world);
  return { report, delivery, waitSeconds, received: receiver.received, hook };
}

/** Fails to deliver to a webhook until nothing is left to be tried. */
async function failUntilDone(world: World, hook: Hook): Promise<void> {
  for (let i = 0; (await deliveriesOf(world, hook.id)).some(({ status }) => status === "pending"); i++) {
    assert.ok(i < 20, "it comes to an end");
    await makeDue(world, hook.id);
    await run(world);
  }
}

onOneBackend((test) => {
  test("an event reaches every webhook that listens to it, and no other", async (world) => {
    await using receiver = startReceiver();
    const person = await newPerson(world);
    const all = await newHook(world, receiver.url, { person });
    const teams = await newHook(world, receiver.url, { person, events: ["team.created", "member.added"] });
    const keys = await newHook(world, receiver.url, { person, events: ["api_key.created"] });
    const stranger = await newHook(world, receiver.url);
    await emit(world, all.accountId, "team.created", { team_id: crypto.randomUUID(), members: 1 });
    assert.deepEqual(await run(world), { delivered: 2, failed: 0 });
    const counts = await Promise.all(
      [all, teams, keys, stranger].map((hook) => deliveriesOf(world, hook.id)),
    );
    assert.deepEqual(counts.map((each) => each.length), [1, 1, 0, 0]);
    const [first, second] = receiver.received as [Received, Received];
    assert.notEqual(first.id, second.id);
    assert.equal(first.body, second.body);
    assert.ok(
      [first, second].every((each) => isSignedBy(all.secret, each) !== isSignedBy(teams.secret, each)),
    );
  });

  test("without a subscriber nothing is written", async (world) => {
    const count = async () =>
      (await world.sql.query("select count(*) from app.webhook_deliveries")).rows[0].count;
    const person = await newPerson(world);
    const accountId = await accountIdOf(world, person);
    const before = await count();
    await emit(world, accountId);
    await emit(world, crypto.randomUUID());
    const hook = await newHook(world, "http://127.0.0.1:9/", { person, events: ["api_key.created"] });
    await emit(world, accountId);
    await world.request("DELETE", `/webhooks/${hook.id}`, { token: hook.token });
    await emit(world, accountId, "api_key.created");
    assert.equal(await count(), before);
  });

  test("what a transaction tells of that is rolled back is not sent", async (world) => {
    await using receiver = startReceiver();
    const hook = await newHook(world, receiver.url);
    await world.sql.query(`do $$ begin
      perform app.emit_event('${hook.accountId}', 'team.created', '{}');
      raise exception 'undone';
      exception when raise_exception then null;
    end $$`);
    await emit(world, hook.accountId, "api_key.created");
    assert.deepEqual(await run(world), { delivered: 1, failed: 0 });
    assert.deepEqual(typesOf(receiver.received), ["api_key.created"]);
  });

  test("deliveries to one endpoint go one after another, in the order of the events", async (world) => {
    let inFlight = 0;
    let most = 0;
    await using receiver = startReceiver(async () => {
      most = Math.max(most, ++inFlight);
      await Promise.resolve();
      inFlight--;
      return new Response();
    });
    const hook = await newHook(world, receiver.url);
    for (let i = 0; i < 12; i++) await emit(world, hook.accountId, "memory.written", { seq: i });
    await Promise.all([run(world), run(world), run(world)]);
    await eventually("all arrive", async () => (await run(world), receiver.received.length === 12));
    assert.deepEqual(receiver.received.map(({ body }) => JSON.parse(body).data.seq), [...Array(12).keys()]);
    assert.equal(most, 1);
  });

  test("eight dispatchers at once deliver each event once", async (world) => {
    await using receiver = startReceiver();
    const hooks = await Promise.all(Array.from({ length: 10 }, () => newHook(world, receiver.url)));
    for (const hook of hooks) for (let i = 0; i < 5; i++) await emit(world, hook.accountId);
    const reports = await Promise.all(Array.from({ length: 8 }, () => run(world)));
    await run(world);
    assert.equal(receiver.received.length, 50);
    assert.equal(new Set(receiver.received.map(({ id }) => id)).size, 50);
    assert.equal(reports.reduce((sum, { failed }) => sum + failed, 0), 0);
  });

  test("an endpoint that never answers delays nobody else", async (world) => {
    const { promise, resolve } = Promise.withResolvers<Response>();
    await using poisoned = startReceiver(() => promise);
    await using healthy = startReceiver();
    const bad = await newHook(world, poisoned.url);
    for (let i = 0; i < 300; i++) await emit(world, bad.accountId);
    const good = await newHook(world, healthy.url);
    for (let i = 0; i < 30; i++) await emit(world, good.accountId);
    const running = run(world);
    await eventually("the others arrive meanwhile", () => healthy.received.length === 30);
    assert.equal(poisoned.received.length, 1, "one delivery at a time");
    await forgetPending(world);
    resolve(new Response());
    await running;
  });

  for (const status of [200, 201, 202, 204, 299]) {
    test(`an answer of ${status} delivers`, async (world) => {
      const { report, delivery } = await deliverOnce(world, status);
      assert.deepEqual(report, { delivered: 1, failed: 0 });
      assert.deepEqual([delivery.status, delivery.last_status, delivery.last_error], [
        "delivered",
        status,
        null,
      ]);
    });
  }

  for (const status of [301, 302, 307, 400, 401, 404, 429, 500, 502, 503]) {
    test(`an answer of ${status} is a failure, tried again`, async (world) => {
      const { report, delivery, received } = await deliverOnce(world, status, { location: "/elsewhere" });
      assert.deepEqual(report, { delivered: 0, failed: 1 });
      assert.deepEqual([delivery.status, delivery.last_status, delivery.last_error, delivery.attempts], [
        "pending",
        status,
        `http_${status}`,
        1,
      ]);
      assert.equal(received.length, 1);
    });
  }

  test("an endpoint that is down is tried on the schedule of Standard Webhooks, then no more", async (world) => {
    const gone = startReceiver();
    await gone[Symbol.asyncDispose]();
    const hook = await newHook(world, gone.url);
    await emit(world, hook.accountId);
    for (const seconds of SCHEDULE_SECONDS) {
      await makeDue(world, hook.id);
      assert.deepEqual(await run(world), { delivered: 0, failed: 1 });
      const [{ status, last_error, last_status, next_attempt_at }] = await deliveriesOf(world, hook.id);
      assert.deepEqual([status, last_error, last_status], ["pending", "unreachable", null]);
      const wait = (next_attempt_at.getTime() - Date.now()) / 1000;
      assert.ok(wait > seconds * 0.9 - 2 && wait < seconds * 1.1 + 2, `${wait} instead of ${seconds}`);
      assert.deepEqual(await run(world), { delivered: 0, failed: 0 }, "it is too early");
    }
    await makeDue(world, hook.id);
    await run(world);
    const [{ status, attempts }] = await deliveriesOf(world, hook.id);
    assert.deepEqual([status, attempts], ["exhausted", 10]);
    assert.equal((await hookRow(world, hook.id)).state, "active", "three days are not five");
  });

  test("each attempt has the same id and body, and a timestamp and signature of its own", async (world) => {
    await using receiver = startReceiver(() => new Response(null, { status: 500 }));
    const hook = await newHook(world, receiver.url);
    let clock = Date.now() - 120_000;
    const hooks = openWebhookSender({ allowPrivate: true }, () => new Date(clock));
    const { platform } = world.with({ hooks });
    await emit(world, hook.accountId);
    for (let i = 0; i < 3; i++, clock += 60_000) {
      await makeDue(world, hook.id);
      await run({ platform });
    }
    const { received } = receiver;
    assert.equal(new Set(received.map(({ id, body }) => id + body)).size, 1);
    assert.equal(new Set(received.map(({ signature }) => signature)).size, 3);
    assert.deepEqual(received.map(({ timestamp }) => timestamp - received[0]!.timestamp), [0, 60, 120]);
    assert.ok(received.every((each) => isSignedBy(hook.secret, each)));
    await forgetPending(world);
  });

  test("an endpoint that comes and goes gets everything in the end, and is not counted as failing", async (world) => {
    let turn = 0;
    await using receiver = startReceiver(() => new Response(null, { status: turn++ % 2 === 0 ? 503 : 200 }));
    const hook = await newHook(world, receiver.url);
    for (let i = 0; i < 6; i++) await emit(world, hook.accountId);
    await failUntilDone(world, hook);
    const deliveries = await deliveriesOf(world, hook.id);
    assert.deepEqual(deliveries.map(({ status }) => status), Array(6).fill("delivered"));
    assert.deepEqual([(await hookRow(world, hook.id)).state, (await hookRow(world, hook.id)).failing_since], [
      "active",
      null,
    ]);
  });

  test("Retry-After puts the next attempt off, to a day at most, and never brings it forward", async (world) => {
    const cases: [string, number][] = [["600", 600], ["1", 5], ["99999999", 86_400], ["soon", 5]];
    for (const [header, seconds] of cases) {
      const { waitSeconds } = await deliverOnce(world, 429, { "retry-after": header });
      assert.ok(Math.abs(waitSeconds - seconds) < seconds * 0.1 + 2, `${header}: ${waitSeconds}`);
    }
  });

  test("a huge answer is neither kept nor shown", async (world) => {
    await using receiver = startReceiver(() => new Response("secret ".repeat(1_000_000), { status: 500 }));
    const hook = await newHook(world, receiver.url);
    await emit(world, hook.accountId);
    assert.deepEqual(await run(world), { delivered: 0, failed: 1 });
    const { text } = await world.request("GET", `/webhooks/${hook.id}/deliveries`, { token: hook.token });
    assert.ok(text.includes("http_500") && !text.includes("secret"));
    assert.ok(
      !JSON.stringify(world.logs).includes("secret ") && !JSON.stringify(world.logs).includes(receiver.url),
    );
    await forgetPending(world);
  });

  test("an endpoint that is slow is given up, and tried again", async (world) => {
    const { promise, resolve } = Promise.withResolvers<Response>();
    await using receiver = startReceiver(() => promise);
    const hook = await newHook(world, receiver.url);
    const { platform } = world.with({ hooks: openWebhookSender({ allowPrivate: true, timeoutMs: 100 }) });
    await emit(world, hook.accountId);
    assert.deepEqual(await run({ platform }), { delivered: 0, failed: 1 });
    resolve(new Response());
    assert.equal((await deliveriesOf(world, hook.id))[0].last_error, "timeout");
    await makeDue(world, hook.id);
    assert.deepEqual(await run(world), { delivered: 1, failed: 0 });
  });

  test("a worker that dies between sending and saying so: the same id again, after the lease", async (world) => {
    await using receiver = startReceiver();
    const hook = await newHook(world, receiver.url);
    const { db } = world.platform;
    const { platform: dying } = world.with({
      db: {
        ...db,
        call: (name, args) => name === "finish_delivery" ? Promise.reject(new Error()) : db.call(name, args),
      },
    });
    await emit(world, hook.accountId);
    await emit(world, hook.accountId);
    await run({ platform: dying });
    assert.equal(receiver.received.length, 1);
    assert.deepEqual(await run(world), { delivered: 0, failed: 0 }, "the lease holds");
    await makeDue(world, hook.id);
    assert.deepEqual(await run(world), { delivered: 2, failed: 0 });
    const [first, again, other] = receiver.received.map(({ id }) => id);
    assert.equal(again, first);
    assert.notEqual(other, first);
  });

  test("a delivery whose workers always die comes to an end", async (world) => {
    await using receiver = startReceiver();
    const hook = await newHook(world, receiver.url);
    await emit(world, hook.accountId);
    for (let i = 0; i < 10; i++) {
      await world.platform.db.rows("claim_deliveries", { p_limit: 20, p_lease_seconds: 60 }, []);
      await makeDue(world, hook.id);
    }
    assert.deepEqual(await run(world), { delivered: 0, failed: 0 });
    const [{ status, last_error }] = await deliveriesOf(world, hook.id);
    assert.deepEqual([status, last_error, receiver.received.length], ["exhausted", "never_finished", 0]);
  });

  test("a success counts whoever reports it and however late, a failure only from who holds the lease", async (world) => {
    const hook = await newHook(world, "http://127.0.0.1:9/");
    await emit(world, hook.accountId);
    const claim = () =>
      world.platform.db.rows<{ id: string; attempt: number }>(
        "claim_deliveries",
        { p_limit: 20, p_lease_seconds: 60 },
        [],
      );
    const finish = (id: string, attempt: number, status: number) =>
      world.platform.db.call<{ state: string }>("finish_delivery", {
        p_delivery_id: id,
        p_attempt: attempt,
        p_status: status,
        p_error: status < 300 ? null : `http_${status}`,
        p_retry_after_seconds: null,
      });
    const [{ id } = { id: "" }] = await claim();
    await makeDue(world, hook.id);
    assert.deepEqual((await claim()).map(({ attempt }) => attempt), [2]);
    assert.equal((await finish(id, 1, 410)).state, "pending", "the first attempt has lost its lease");
    assert.equal((await hookRow(world, hook.id)).state, "active");
    assert.equal((await finish(id, 1, 200)).state, "delivered");
    assert.equal((await finish(id, 2, 500)).state, "delivered");
    assert.equal((await finish(id, 2, 500)).state, "delivered", "said again, it changes nothing");
    const row = await hookRow(world, hook.id);
    assert.deepEqual([row.busy_until, row.failing_since], [null, null]);
    assert.equal(await finish(crypto.randomUUID(), 1, 200), null);
  });

  test("a run takes no more than it was told to", async (world) => {
    await using receiver = startReceiver();
    const hooks = await Promise.all(Array.from({ length: 6 }, () => newHook(world, receiver.url)));
    for (const hook of hooks) for (let i = 0; i < 2; i++) await emit(world, hook.accountId);
    assert.deepEqual(await run(world, 5), { delivered: 5, failed: 0 });
    assert.deepEqual(await run(world, 100), { delivered: 7, failed: 0 });
  });
});
