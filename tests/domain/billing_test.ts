/** What events mean, as pure rules: plans of products, statuses, quotas, and what an order is worth. Spec 6. */

import assert from "node:assert/strict";
import {
  creditsOf,
  planOf,
  quotasIn,
  refundedPpm,
  statusAfter,
} from "../../supabase/functions/v2-agent-state/domain/billing.ts";
import { UNLIMITED } from "../../supabase/functions/v2-agent-state/domain/plans.ts";

Deno.test("a product's plan is the operator's word, then the product's own, then Free", () => {
  const products = { a: "pro", b: "nonsense" };
  assert.equal(planOf("a", { plan: "growth" }, products), "pro");
  assert.equal(planOf("b", { plan: "growth" }, products), "free");
  assert.equal(planOf("c", { plan: "growth" }, products), "growth");
  for (const plan of ["Pro", " pro", "", 1, null, undefined, ["pro"]]) {
    assert.equal(planOf("c", { plan }, products), "free");
  }
  assert.equal(planOf("toString", {}, products), "free");
});

Deno.test("the status after an event is the spec's, and only updated listens to the subscription", () => {
  for (const status of ["active", "canceled", "incomplete", "unpaid"]) {
    assert.equal(statusAfter("subscription.created", status), "active");
    assert.equal(statusAfter("subscription.active", status), "active");
    assert.equal(statusAfter("subscription.updated", status), status);
    assert.equal(statusAfter("subscription.canceled", status), "canceled");
    assert.equal(statusAfter("subscription.revoked", status), "canceled");
  }
  assert.equal(statusAfter("subscription.updated", "incomplete_expired"), "canceled");
});

Deno.test("quotas are the plan's while there is a right to it", () => {
  for (const status of ["active", "trialing", "past_due"]) {
    assert.equal(quotasIn(status, "enterprise").quota_devices, UNLIMITED);
  }
  for (const status of ["canceled", "unpaid", "paused", "incomplete", "new one"]) {
    assert.equal(quotasIn(status, "enterprise").quota_devices, 3);
  }
});

Deno.test("credits are a positive whole number of milli-cents up to 10¹², as number or text", () => {
  for (const good of [1, 45, 1e12, "1", "1000000000000"]) {
    assert.equal(creditsOf({ credits_milli: good }), Number(good));
  }
  for (
    const bad of [
      0,
      -1,
      0.5,
      1e12 + 1,
      1e21,
      NaN,
      "",
      "0",
      "01",
      "1.0",
      "1e3",
      "+1",
      " 1",
      "1\n",
      true,
      null,
      [1],
    ]
  ) {
    assert.equal(creditsOf({ credits_milli: bad }), null, String(bad));
  }
  assert.equal(creditsOf({}), null);
});

Deno.test("a refund is its share of the price in millionths, rounded up, and all of it when nobody can say", () => {
  const of = (refunded_amount: number | null, net_amount: number | null, status = "partially_refunded") =>
    refundedPpm({ status, net_amount, refunded_amount });
  assert.equal(of(0, 1_000), 0);
  for (let percent = 1; percent <= 100; percent++) assert.equal(of(percent, 100), percent * 10_000);
  assert.equal(of(1, 3), 333_334);
  assert.equal(of(1, 1_000_000_000), 1);
  assert.equal(of(2_000, 1_000), 1_000_000);
  assert.equal(of(1, 1_000, "refunded"), 1_000_000);
  for (const [refunded, price] of [[null, 1_000], [5, null], [5, 0], [null, null]] as const) {
    assert.equal(of(refunded, price), 1_000_000);
  }
});
