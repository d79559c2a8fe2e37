/** Webhooks over HTTP: registering, listing, testing, rotating and deleting them, and the door of the dispatcher. */

import assert from "node:assert/strict";
import { openWebhookSender } from "../../supabase/functions/_shared/platform/webhook_sender.ts";
import { WEBHOOK_EVENTS } from "../../supabase/functions/v2-agent-state/domain/webhook_events.ts";
import { deliverWebhooks } from "../../supabase/functions/_shared/flows/deliver_webhooks.ts";
import { eventually } from "../support/eventually.ts";
import { onEveryBackend, onOneBackend } from "../support/harness.ts";
import { newPerson } from "../support/people.ts";
import { deliveriesOf, emit, isSignedBy, newHook, SETTINGS, startReceiver } from "../support/hooks.ts";

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
const URL_TO = "http://127.0.0.1:9/hook";
const CRON = "a-secret-of-the-scheduler";

onEveryBackend((test) => {
  test("a webhook is registered, listed without its secret, tested, and deleted", async (world) => {
    await using receiver = startReceiver();
    const { token } = await newPerson(world);
    const body = { url: receiver.url, events: ["team.created", "api_key.created", "team.created"] };
    const created = await world.request("POST", "/webhooks", { token, body });
    assert.equal(created.status, 201);
    const { id, secret, created_at, ...rest } = created.body;
    assert.deepEqual(rest, {
      url: receiver.url,
      events: ["team.created", "api_key.created"],
      state: "active",
    });
    assert.match(id, UUID);
    assert.match(created_at, TIME);
    assert.match(secret, /^whsec_[0-9A-Za-z+/]{43}=$/);

    const listed = await world.request("GET", "/webhooks", { token });
    assert.equal(listed.status, 200);
    assert.deepEqual(listed.body, [{
      id,
      url: receiver.url,
      events: rest.events,
      state: "active",
      disabled_reason: null,
      failing_since: null,
      created_at,
    }]);

    const tested = await world.request("POST", `/webhooks/${id}/test`, { token });
    assert.equal(tested.status, 202);
    assert.deepEqual(Object.keys(tested.body), ["delivery_id"]);
    const [got] = await eventually("the test arrives", () => receiver.received[0] && receiver.received);
    assert.equal(got!.id, tested.body.delivery_id);
    assert.ok(isSignedBy(secret, got!));
    assert.equal(got!.headers.get("content-type"), "application/json");
    const sent = JSON.parse(got!.body);
    assert.deepEqual([Object.keys(sent), sent.type, sent.data], [
      ["type", "timestamp", "data"],
      "webhook.test",
      { webhook_id: id },
    ]);
    assert.match(sent.timestamp, TIME);

    const log = await eventually("the delivery is recorded", async () => {
      const { body } = await world.request("GET", `/webhooks/${id}/deliveries`, { token });
      return body.deliveries[0].status === "delivered" ? body : undefined;
    });
    const [{ created_at: queuedAt, delivered_at, ...delivery }] = log.deliveries;
    assert.ok(TIME.test(queuedAt) && TIME.test(delivered_at));
    assert.deepEqual([log.webhook_id, log.deliveries.length, delivery], [id, 1, {
      id: tested.body.delivery_id,
      event_type: "webhook.test",
      status: "delivered",
      attempts: 1,
      next_attempt_at: null,
      last_status: 204,
      last_error: null,
    }]);

    const deleted = { id, message: "webhook_deleted" };
    for (let time = 0; time < 2; time++) {
      const { status, body } = await world.request("DELETE", `/webhooks/${id}`, { token });
      assert.deepEqual([status, body], [200, deleted], "a repeated deletion answers the same");
    }
    assert.deepEqual((await world.request("GET", "/webhooks", { token })).body, []);
    for (
      const [method, path] of [["POST", "/test"], ["GET", "/deliveries"], ["POST", "/rotate-secret"]] as const
    ) {
      const { status, body } = await world.request(method, `/webhooks/${id}${path}`, { token });
      assert.deepEqual([status, body.error], [404, "webhook_not_found"]);
    }
  });

  test("while a secret is rotated every delivery carries two signatures, each good by itself", async (world) => {
    await using receiver = startReceiver();
    const hook = await newHook(world, receiver.url);
    const rotated = await world.request("POST", `/webhooks/${hook.id}/rotate-secret`, { token: hook.token });
    assert.equal(rotated.status, 200);
    assert.deepEqual(Object.keys(rotated.body), ["id", "secret", "previous_expires_at"]);
    const inADay = Date.parse(rotated.body.previous_expires_at) - Date.now();
    assert.ok(inADay > 86_340_000 && inADay <= 86_400_000, String(inADay));
    await emit(world, hook.accountId);
    await deliverWebhooks(world.platform, SETTINGS, 10);
    const [during] = receiver.received;
    assert.equal(during!.signature.split(" ").length, 2);
    assert.ok(isSignedBy(hook.secret, during!) && isSignedBy(rotated.body.secret, during!));

    await world.sql.query("update app.webhooks set previous_expires_at = now() where id = $1", [hook.id]);
    await emit(world, hook.accountId);
    await deliverWebhooks(world.platform, SETTINGS, 10);
    const after = receiver.received[1]!;
    assert.equal(after.signature.split(" ").length, 1);
    assert.ok(!isSignedBy(hook.secret, after) && isSignedBy(rotated.body.secret, after));
  });

  test("the dispatcher asks for the cron secret, and says what it did", async (world) => {
    await using receiver = startReceiver();
    const hook = await newHook(world, receiver.url);
    await emit(world, hook.accountId);
    const dispatch = (settings: object, headers: Record<string, string> = {}) =>
      world.with({ settings }).request("POST", "/webhooks/dispatch", { headers });
    const off = await dispatch({ cronSecret: undefined }, { authorization: `Bearer ${CRON}` });
    assert.deepEqual([off.status, off.body.error], [503, "cron_not_configured"]);
    for (const authorization of [`Bearer ${CRON}x`, "Bearer x", CRON, `Basic ${CRON}`, "Bearer", ""]) {
      const { status, body } = await dispatch({ cronSecret: CRON }, { authorization });
      assert.deepEqual([status, body.error], [401, "invalid_cron_secret"], authorization);
    }
    assert.equal((await dispatch({ cronSecret: CRON })).body.error, "invalid_cron_secret");
    assert.deepEqual(receiver.received, []);
    const { status, body } = await dispatch({ cronSecret: CRON }, { authorization: `Bearer ${CRON}` });
    assert.deepEqual([status, body], [200, { delivered: 1, failed: 0 }]);
    assert.equal(receiver.received.length, 1);
  });
});

Deno.test("every event is documented, with what it carries, and no other", async () => {
  const docs = await Deno.readTextFile(new URL("../../docs/webhooks.md", import.meta.url));
  const examples = docs.matchAll(/^\| `(\w+\.\w+)` \| [^|]+ \| `(\{[^`]+\})`/gm);
  const documented = Array.from(
    examples,
    ([, type, data]) => [type, Object.keys(JSON.parse(data!)).length > 0],
  );
  assert.deepEqual(documented, WEBHOOK_EVENTS.map((type) => [type, true]));
});

onOneBackend((test) => {
  test("a URL that must not be sent to is refused at registration, with the reason", async (world) => {
    const { token } = await newPerson(world);
    const records: Record<string, string> = {
      "private.hooks.com": "10.0.0.1",
      "public.hooks.com": "93.184.216.34",
    };
    const hooks = openWebhookSender({
      allowPrivate: false,
      resolve: (name, type) =>
        type === "A" && name in records
          ? Promise.resolve([records[name]!])
          : Promise.reject(new Deno.errors.NotFound()),
    });
    const create = (url: unknown) =>
      world.with({ hooks }).request("POST", "/webhooks", { token, body: { url, events: ["*"] } });
    const refused: [string, string][] = [
      ["nonsense", "not_a_url"],
      ["http://public.hooks.com/", "not_https"],
      ["https://a:b@public.hooks.com/", "has_credentials"],
      ["https://public.hooks.com:22/", "port_not_allowed"],
      ["https://2130706433/", "ip_address"],
      ["https://localhost/", "host_not_public"],
      ["https://nowhere.hooks.com/", "not_resolved"],
      ["https://private.hooks.com/", "address_not_public"],
    ];
    for (const [url, reason] of refused) {
      const { status, body } = await create(url);
      assert.deepEqual([status, body.error, body.reason], [400, "invalid_field:url", reason], url);
    }
    assert.equal((await create("https://public.hooks.com/in")).status, 201);
    for (const url of [7, "", "x".repeat(2_049), "https://\u0000"]) {
      assert.equal((await create(url)).body.error, "invalid_field:url");
    }
  });

  test("events are a list of known names, or all of them", async (world) => {
    const { token } = await newPerson(world);
    const create = (events: unknown) =>
      world.request("POST", "/webhooks", { token, body: { url: URL_TO, events } });
    for (
      const events of [["nothing.known"], ["team.created", "x"], [], {}, "team.created", [["*"]], [null], 1]
    ) {
      const { status, body } = await create(events);
      assert.deepEqual([status, body.error], [400, "invalid_field:events"], JSON.stringify(events));
    }
    assert.equal((await create(undefined)).body.error, "missing_field:events");
    assert.deepEqual((await create("*")).body.events, ["*"]);
    assert.deepEqual((await create([...WEBHOOK_EVENTS, "*"])).body.events, [...WEBHOOK_EVENTS, "*"]);
    const noUrl = await world.request("POST", "/webhooks", { token, body: { events: ["*"] } });
    assert.equal(noUrl.body.error, "missing_field:url");
  });

  test("another person's webhook is like one that does not exist", async (world) => {
    const hook = await newHook(world, URL_TO);
    const { token } = await newPerson(world);
    for (const id of [hook.id, crypto.randomUUID(), "x", "1", "%00"]) {
      for (
        const [method, path] of [
          ["DELETE", ""],
          ["POST", "/test"],
          ["GET", "/deliveries"],
          ["POST", "/rotate-secret"],
        ] as const
      ) {
        const { status, body } = await world.request(method, `/webhooks/${id}${path}`, { token });
        assert.deepEqual([status, body.error], [404, "webhook_not_found"], `${method} ${id}${path}`);
      }
    }
    assert.deepEqual((await world.request("GET", "/webhooks", { token })).body, []);
    assert.equal((await world.request("GET", "/webhooks", { token: hook.token })).body.length, 1);
    assert.deepEqual(await deliveriesOf(world, hook.id), []);
  });

  test("only a session may manage webhooks", async (world) => {
    const key = `sov_proj_${crypto.randomUUID()}`;
    for (
      const [method, path] of [["GET", ""], ["POST", ""], ["DELETE", "/x"], ["POST", "/x/test"]] as const
    ) {
      assert.equal(
        (await world.request(method, `/webhooks${path}`, { token: key })).body.error,
        "session_jwt_required",
      );
      const { body } = await world.request(method, `/webhooks${path}`);
      assert.equal(body.error, "missing_or_invalid_bearer_token");
    }
  });

  test("a person has at most twenty webhooks, however many are asked for at once", async (world) => {
    const { token } = await newPerson(world);
    const create = () => world.request("POST", "/webhooks", { token, body: { url: URL_TO, events: ["*"] } });
    const answers = await Promise.all(Array.from({ length: 24 }, create));
    const refused = answers.filter(({ status }) => status !== 201);
    assert.equal(refused.length, 4);
    for (const { status, body } of refused) {
      assert.deepEqual([status, body.error, body.limit], [409, "webhook_limit_reached", 20]);
    }
    const [{ id }] = (await world.request("GET", "/webhooks", { token })).body;
    await world.request("DELETE", `/webhooks/${id}`, { token });
    assert.equal((await create()).status, 201, "a deleted one does not count");
  });

  test("a call that is repeated registers and rotates once", async (world) => {
    const subject = `user-${crypto.randomUUID()}`;
    const secret = crypto.getRandomValues(new Uint8Array(32));
    const base = { p_subject: subject, p_email: null };
    const create = () =>
      world.platform.db.call<{ id: string }>("create_webhook", {
        ...base,
        p_url: URL_TO,
        p_events: ["*"],
        p_secret: secret,
      });
    const { id } = await create();
    assert.equal((await create()).id, id);
    const rotate = { ...base, p_webhook_id: id, p_secret: crypto.getRandomValues(new Uint8Array(32)) };
    const first = await world.platform.db.call("rotate_webhook_secret", rotate);
    assert.deepEqual(await world.platform.db.call("rotate_webhook_secret", rotate), first);
    const { rows } = await world.sql.query("select previous_secret from app.webhooks where id = $1", [id]);
    assert.deepEqual(new Uint8Array(rows[0].previous_secret), secret);
    const test = { ...base, p_webhook_id: id, p_delivery_id: crypto.randomUUID() };
    await world.platform.db.call("test_webhook", test);
    await world.platform.db.call("test_webhook", test);
    assert.equal((await deliveriesOf(world, id)).length, 1);
  });
});
