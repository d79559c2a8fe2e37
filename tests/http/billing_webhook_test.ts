/** Events of the payment provider: what each does to the account, and what is refused. Spec 3, 5 and 6. */

import assert from "node:assert/strict";
import { UNLIMITED } from "../../supabase/functions/v2-agent-state/domain/plans.ts";
import { onEveryBackend, onOneBackend, type World } from "../support/harness.ts";
import {
  event,
  order,
  post,
  SECRET,
  sign,
  type Signing,
  subscription,
  take,
  userOf,
  withSettings,
} from "../support/polar.ts";
import { assertRefused } from "../support/teams.ts";

interface Subscription {
  plan: string;
  status: string;
  quota_devices: number;
  seat_count?: number;
  included_seats?: number;
  polar_subscription_id: string | null;
  current_period_end: string | null;
}

async function subscriptionOf(world: World, user: string): Promise<Subscription> {
  const { status, body } = await world.request("GET", "/billing/subscription", {
    token: await world.issuer.token(user),
  });
  assert.equal(status, 200);
  return body.subscription;
}

onEveryBackend((test) => {
  test("created and active make the account one of the plan, with its quotas, seats and cycle", async (world) => {
    for (const type of ["subscription.created", "subscription.active"]) {
      for (
        const [plan, devices, seats] of [["pro", 10, 5], ["growth", 25, 10], ["hobby", 3, undefined]] as const
      ) {
        const data = subscription({ product_id: `product-${plan}`, status: "trialing" });
        assert.equal(await take(world, type, data), "applied");
        const { seat_count, included_seats, ...shown } = await subscriptionOf(world, userOf(data));
        assert.deepEqual([seat_count, included_seats], [seats, seats]);
        assert.deepEqual(shown, {
          user_id: userOf(data),
          plan,
          status: "active",
          quota_sync_ops: UNLIMITED,
          quota_storage_bytes: UNLIMITED,
          quota_subkeys: UNLIMITED,
          quota_devices: devices,
          polar_customer_id: "customer-1",
          polar_subscription_id: data.id,
          current_period_end: "2100-01-01T00:00:00.000Z",
        });
        const { rows } = await world.sql.query("select period_start from app.accounts where subject = $1", [
          userOf(data),
        ]);
        assert.equal(rows[0].period_start.toISOString(), "2026-11-03T04:05:06.000Z");
      }
    }
  });

  test("the metadata of a product names its plan where the operator's table does not; else it is Free", async (world) => {
    const cases: [string, object | null, string, number][] = [
      ["elsewhere", { plan: "enterprise" }, "enterprise", UNLIMITED],
      ["product-pro", { plan: "enterprise" }, "pro", 10],
      ["elsewhere", { plan: "platinum" }, "free", 3],
      ["elsewhere", {}, "free", 3],
      ["elsewhere", null, "free", 3],
      ["__proto__", {}, "free", 3],
      ["constructor", {}, "free", 3],
    ];
    for (const [product_id, metadata, plan, devices] of cases) {
      const product = metadata === null ? null : { id: product_id, metadata };
      const data = subscription({ product_id, product });
      await take(world, "subscription.active", data);
      const shown = await subscriptionOf(world, userOf(data));
      assert.deepEqual([shown.plan, shown.status, shown.quota_devices], [plan, "active", devices]);
    }
  });

  test("updated brings period, seats and status; canceled and revoked bring the Free quotas at once", async (world) => {
    for (const end of ["subscription.canceled", "subscription.revoked"]) {
      const data = subscription({ seats: 6 });
      const user = userOf(data);
      await take(world, "subscription.created", data);
      assert.equal((await subscriptionOf(world, user)).seat_count, 6);
      for (
        const [i, [status, devices]] of ([["past_due", 10], ["active", 10], ["unpaid", 3]] as const).entries()
      ) {
        await take(world, "subscription.updated", {
          ...data,
          status,
          seats: 8 + i,
          current_period_start: `2026-12-0${i + 1}T00:00:00Z`,
          current_period_end: `2027-01-0${i + 1}T00:00:00Z`,
          modified_at: `2026-12-0${i + 1}T00:00:00.000001Z`,
        });
        const shown = await subscriptionOf(world, user);
        assert.deepEqual([shown.status, shown.quota_devices, shown.seat_count], [status, devices, 8 + i]);
        assert.equal(shown.current_period_end, `2027-01-0${i + 1}T00:00:00.000Z`);
      }
      // The provider says `canceled` when the end is set; its own status is still active then.
      const last = { ...data, status: "active", modified_at: "2026-12-09T00:00:00Z" };
      assert.equal(await take(world, end, last), "applied");
      const shown = await subscriptionOf(world, user);
      assert.deepEqual([shown.plan, shown.status, shown.quota_devices], ["pro", "canceled", 3]);
      assert.ok(!("seat_count" in shown));
      const { rows } = await world.sql.query("select period_start from app.accounts where subject = $1", [
        user,
      ]);
      assert.equal(rows[0].period_start, null);
    }
  });

  test("an older state never replaces a newer one, to the microsecond", async (world) => {
    const data = subscription({ modified_at: "2026-12-01T00:00:00.000002Z", seats: 7 });
    await take(world, "subscription.updated", data);
    const old = { ...data, seats: 2, modified_at: "2026-12-01T00:00:00.000001Z" };
    assert.equal(await take(world, "subscription.revoked", old), "stale");
    assert.equal(await take(world, "subscription.created", { ...data, modified_at: null }), "stale");
    const { seat_count, status } = await subscriptionOf(world, userOf(data));
    assert.deepEqual([seat_count, status], [7, "active"]);
    const offset = { ...data, seats: 9, modified_at: "2026-12-01T01:00:00.000003+01:00" };
    assert.equal(await take(world, "subscription.updated", offset), "applied");
    assert.equal((await subscriptionOf(world, userOf(data))).seat_count, 9);
  });

  test("a subscription stays with whom its first event named, whoever a later one names", async (world) => {
    const data = subscription({ modified_at: "2026-12-01T00:00:00.000001Z", seats: 7 });
    assert.equal(await take(world, "subscription.updated", data), "applied");
    const { customer } = subscription();
    const later = { ...data, customer, seats: 9, modified_at: "2026-12-01T00:00:00.000002Z" };
    assert.equal(await take(world, "subscription.updated", later), "applied");
    const earlier = { ...data, customer, created_at: "2026-10-01T00:00:00.000000Z" };
    assert.equal(await take(world, "subscription.updated", earlier), "stale");
    assert.equal((await subscriptionOf(world, userOf(data))).seat_count, 9);
    assert.equal((await subscriptionOf(world, userOf(later))).plan, "free");
  });

  test("of several subscriptions the newest live one counts, and the one that is left when it ends", async (world) => {
    const first = subscription({ product_id: "product-growth", created_at: "2026-01-01T00:00:00Z" });
    const customer = first.customer;
    const second = subscription({ customer, created_at: "2026-02-01T00:00:00Z" });
    const unknown = subscription({ customer, product_id: "what", created_at: "2026-03-01T00:00:00Z" });
    const user = userOf(first);
    for (const data of [second, unknown, first]) await take(world, "subscription.active", data);
    assert.equal((await subscriptionOf(world, user)).polar_subscription_id, second.id);
    const end = { modified_at: "2026-12-01T00:00:00Z" };
    await take(world, "subscription.revoked", { ...second, ...end });
    const shown = await subscriptionOf(world, user);
    assert.deepEqual([shown.polar_subscription_id, shown.plan, shown.seat_count], [first.id, "growth", 10]);
    await take(world, "subscription.revoked", { ...first, ...end });
    assert.equal((await subscriptionOf(world, user)).plan, "free");
  });

  test("seats that were changed here stay when another subscription, or an old event, comes in", async (world) => {
    const data = subscription({ created_at: "2026-05-01T00:00:00Z", seats: 5 });
    const user = userOf(data);
    await take(world, "subscription.active", data);
    await world.platform.db.call("set_seat_count", {
      p_polar_subscription_id: data.id as string,
      p_seats: 12,
    });
    const older = subscription({ customer: data.customer, created_at: "2026-01-01T00:00:00Z" });
    await take(world, "subscription.active", older);
    await take(world, "subscription.revoked", older);
    assert.equal(await take(world, "subscription.created", data), "stale");
    const shown = await subscriptionOf(world, user);
    assert.deepEqual([shown.polar_subscription_id, shown.seat_count], [data.id, 12]);
  });

  test("kinds that we do not know, customers that are not ours and products without credits change nothing", async (world) => {
    const nobody = { customer: { id: "c", external_id: null } };
    const cases: [string, unknown, string][] = [
      ["subscription.cycled", subscription(), "ignored"],
      ["subscription.uncanceled", subscription(), "ignored"],
      ["order.created", order(), "ignored"],
      ["benefit.granted", { anything: [1, { at: "all" }] }, "ignored"],
      ["unheard.of", null, "ignored"],
      ["subscription.active", subscription(nobody), "no_customer"],
      ["order.paid", order(nobody), "no_customer"],
      ["order.refunded", order(nobody), "no_customer"],
      ...[undefined, 0, -5, 1.5, "", "0", "1e3", "12 ", 1e12 + 1, "9".repeat(20), true, null, [5]]
        .map((credits_milli): [string, unknown, string] => [
          "order.paid",
          order({ product: { metadata: { credits_milli } } }),
          "no_credits",
        ]),
      ["order.paid", order({ product: null }), "no_credits"],
    ];
    for (const [type, data, outcome] of cases) {
      const id = `msg_${crypto.randomUUID()}`;
      assert.equal(await take(world, type, data, { id }), outcome, JSON.stringify(data));
      assert.equal(await take(world, type, data, { id }), "duplicate");
      const { rows } = await world.sql.query(
        "select kind, outcome from app.polar_events where webhook_id = $1",
        [id],
      );
      assert.deepEqual(rows, [{ kind: type, outcome }]);
    }
  });

  test("an event whose signature is missing or wrong is 403, and is not even kept", async (world) => {
    const service = withSettings(world, {});
    const data = subscription();
    const body = JSON.stringify(event("subscription.active", data));
    const wrong: Signing[] = [
      { headers: { "webhook-id": undefined } },
      { headers: { "webhook-timestamp": undefined } },
      { headers: { "webhook-signature": undefined } },
      {
        headers: { "webhook-id": undefined, "webhook-timestamp": undefined, "webhook-signature": undefined },
      },
      { secret: "whsec_b3RoZXI=" },
      { at: new Date(Date.now() - 310_000) },
      { at: new Date(Date.now() + 310_000) },
    ];
    for (const signing of wrong) {
      assertRefused(await post(service, body, signing), 403, "invalid_webhook_signature");
    }
    const tampered = await service.request("POST", "/billing/webhook", {
      body: body.replace("product-pro", "product-growth"),
      headers: sign(body),
    });
    assertRefused(tampered, 403, "invalid_webhook_signature");
    assert.equal((await subscriptionOf(world, userOf(data))).plan, "free");
    const rotated = withSettings(world, { webhookSecrets: ["whsec_bmV3ZXI=", SECRET] });
    assert.equal((await post(rotated, body, { secret: "whsec_bmV3ZXI=" })).status, 200);
    assert.equal((await post(rotated, body)).status, 200);
    const off = withSettings(world, { webhookSecrets: [] });
    assertRefused(await post(off, body), 503, "billing_not_configured");
  });
});

onOneBackend((test) => {
  test("signed garbage is 400, and nothing of it is kept", async (world) => {
    const service = withSettings(world, {});
    const { rows: before } = await world.sql.query("select count(*) from app.polar_events");
    const over = (change: object) =>
      event("subscription.active", subscription(change as Record<string, unknown>));
    const garbage: unknown[] = [
      "",
      "{",
      "null",
      "[]",
      '"text"',
      "{}",
      '{"type":7}',
      '{"type":""}',
      `{"type":"${"x".repeat(129)}"}`,
      '{"type":"a\\u0000b"}',
      '{"type":"subscription.active"}',
      event("subscription.active", null),
      event("order.paid", []),
      ...["id", "status", "customer", "customer_id", "product_id", "created_at"].map((field) =>
        over({ [field]: undefined })
      ),
      over({ id: "../customers" }),
      over({ id: "a\0b" }),
      over({ id: "" }),
      over({ customer: { external_id: "a\0b" } }),
      over({ customer: { external_id: "\ud800" } }),
      over({ customer: { external_id: "" } }),
      over({ customer: { external_id: "x".repeat(513) } }),
      over({ seats: -1 }),
      over({ seats: 2 ** 31 }),
      over({ seats: 1.5 }),
      over({ modified_at: "yesterday" }),
      over({ modified_at: "2026-02-30T00:00:00Z" }),
      over({ modified_at: "2026-02-03" }),
      over({ modified_at: "2026-02-03T00:00:00+99:00" }),
      over({ modified_at: 1_700_000_000 }),
      over({ current_period_end: "2026-11-03T04:05:06Z" }),
      event("order.refunded", order({ refunded_amount: -1 })),
      event("order.refunded", order({ net_amount: 1.5 })),
    ];
    for (const each of garbage) {
      const answer = await post(service, each);
      assert.equal(answer.status, 400, `${JSON.stringify(each)}: ${answer.text}`);
      assert.match(answer.body.error, /^(invalid_json|(missing|invalid)_field:\w+)$/);
    }
    const { rows: after } = await world.sql.query("select count(*) from app.polar_events");
    assert.deepEqual(after, before);
  });

  test("a body over 1 MiB is 413, signed or not, and one just under it is read", async (world) => {
    const service = withSettings(world, {});
    const big = (length: number) => JSON.stringify({ type: "x", data: "y".repeat(length) });
    assertRefused(await post(service, big(1024 * 1024)), 413, "body_too_large");
    assert.equal((await post(service, big(1024 * 1024 - 50))).status, 200);
  });
});
