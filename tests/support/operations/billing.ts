/** Operations of paying: checkouts, seats, and what the payment provider tells. */

import type { World } from "../harness.ts";
import { accountIdOf, newPerson } from "../people.ts";
import { event, order, sign, subscription } from "../polar.ts";
import { subscribe } from "../teams.ts";
import { counter } from "./counting.ts";
import type { Operation, Prepared } from "./mod.ts";

const RETURN_URL = "https://app.example/paid";

/** A signed event about somebody new. */
async function prepareEvent(
  world: World,
  type: string,
  make: (over: Record<string, unknown>) => Record<string, unknown>,
  sql: string,
): Promise<Prepared> {
  const person = await newPerson(world);
  const accountId = await accountIdOf(world, person);
  const data = make({ customer: { id: "customer-1", external_id: person.subject, email: null } });
  const body = JSON.stringify(event(type, data));
  return {
    path: "/billing/webhook",
    options: { body, headers: { "content-type": "application/json", ...sign(body) } },
    canaries: [accountId, person.subject],
    owned: [accountId],
    count: counter(world, sql, [accountId]),
  };
}

async function prepareVisit(world: World, path: string, body: Record<string, unknown>): Promise<Prepared> {
  const person = await newPerson(world);
  const accountId = await accountIdOf(world, person);
  return {
    path,
    options: { token: person.token, body },
    canaries: [accountId, person.subject],
    owned: [accountId],
    person,
  };
}

export const BILLING_OPERATIONS: Operation[] = [
  {
    route: "POST /billing/create-checkout",
    name: "open a checkout",
    opens: "session",
    status: 200,
    prepare: (world) =>
      prepareVisit(world, "/billing/create-checkout", { productId: "product-pro", successUrl: RETURN_URL }),
  },
  {
    route: "POST /billing/customer-portal",
    name: "open the portal",
    opens: "session",
    status: 200,
    prepare: (world) => prepareVisit(world, "/billing/customer-portal", { returnUrl: RETURN_URL }),
  },
  {
    route: "POST /billing/update-seats",
    name: "change the number of seats",
    opens: "session",
    status: 200,
    effect: "once",
    async prepare(world) {
      const prepared = await prepareVisit(world, "/billing/update-seats", { seats: 9 });
      const polarSubscriptionId = `sub-${crypto.randomUUID()}`;
      await subscribe(world, prepared.person!, "growth", { seats: 5, polarSubscriptionId });
      return {
        ...prepared,
        count: counter(
          world,
          "select count(*) as n from app.subscriptions where polar_subscription_id = $1 and seat_count = 9",
          [polarSubscriptionId],
        ),
      };
    },
  },
  {
    route: "POST /billing/webhook",
    name: "take a payment for credit",
    opens: "signature",
    status: 200,
    effect: "once",
    prepare: (world) =>
      prepareEvent(
        world,
        "order.paid",
        order,
        `select count(*) filter (where credits_milli = 1000000) as n from app.accounts where id = $1`,
      ),
  },
  {
    route: "POST /billing/webhook",
    name: "take a new subscription",
    opens: "signature",
    status: 200,
    effect: "once",
    prepare: (world) =>
      prepareEvent(
        world,
        "subscription.active",
        subscription,
        "select count(*) as n from app.subscriptions where account_id = $1 and plan = 'pro' and status = 'active'",
      ),
  },
];
