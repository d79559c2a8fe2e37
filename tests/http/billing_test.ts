/** Paying: checkouts and the portal lead only where the operator says, and seats change with the provider or not at all. */

import assert from "node:assert/strict";
import { type Answer, onEveryBackend, onOneBackend, type World } from "../support/harness.ts";
import { newPerson, type Person } from "../support/people.ts";
import { assertRefused, invite, newTeam, subscribe } from "../support/teams.ts";
import { type Received, withPolar, withSettings } from "../support/polar.ts";

/** Sends a request of a signed-in person. */
async function ask(
  service: Pick<World, "request">,
  person: Person,
  path: string,
  body: unknown,
): Promise<Answer> {
  return await service.request("POST", `/billing/${path}`, { token: person.token, body });
}

/** A person with a subscription at the provider. */
async function newSubscriber(world: World, plan = "pro", seats = 5) {
  const person = await newPerson(world);
  const subscription = `sub-${crypto.randomUUID()}`;
  await world.request("GET", "/billing/subscription", { token: person.token });
  await subscribe(world, person, plan, { seats, polarSubscriptionId: subscription });
  return { person, subscription };
}

async function seatsOf(world: World, person: Person): Promise<number> {
  const { body } = await world.request("GET", "/billing/subscription", { token: person.token });
  return body.subscription.seat_count;
}

onEveryBackend((test) => {
  test("a checkout is made for the caller, and its address handed on", async (world) => {
    const person = await newPerson(world);
    const url = "https://polar.example/checkout/1";
    await withPolar(() => Response.json({ url }, { status: 201 }), async (polar, received) => {
      const service = withSettings(world, polar);
      const answer = await ask(service, person, "create-checkout", {
        productId: "product-pro",
        successUrl: "https://app.example/paid?checkout={CHECKOUT_ID}",
        external_customer_id: "somebody else",
        metadata: { plan: "enterprise" },
      });
      assert.deepEqual([answer.status, answer.body], [200, { url }]);
      assert.deepEqual(received.map(({ method, path }) => [method, path]), [["POST", "/v1/checkouts/"]]);
      assert.deepEqual(received[0]!.body, {
        products: ["product-pro"],
        external_customer_id: person.subject,
        customer_email: person.email,
        success_url: "https://app.example/paid?checkout={CHECKOUT_ID}",
        metadata: { source: "v2-agent-state" },
      });
    });
  });

  test("the portal is opened for the caller, and its address handed on", async (world) => {
    const person = await newPerson(world);
    const url = "https://polar.example/portal";
    await withPolar(() => Response.json({ customer_portal_url: url }), async (polar, received) => {
      const service = withSettings(world, polar);
      const answer = await ask(service, person, "customer-portal", { returnUrl: "https://app.example" });
      assert.deepEqual([answer.status, answer.body], [200, { url }]);
      assert.deepEqual(received[0]!.body, {
        external_customer_id: person.subject,
        return_url: "https://app.example",
      });
    });
  });

  test("seats are changed with the provider first, and then here", async (world) => {
    for (const plan of ["pro", "growth", "enterprise"]) {
      const { person, subscription } = await newSubscriber(world, plan);
      const before: number[] = [];
      const answer = async ({ body }: Received) => {
        before.push(await seatsOf(world, person));
        return Response.json({ id: subscription, seats: body.seats });
      };
      await withPolar(answer, async (polar, received) => {
        const service = withSettings(world, polar);
        for (const seats of [9, 9, 2]) {
          const answered = await ask(service, person, "update-seats", { seats });
          assert.deepEqual([answered.status, answered.body], [200, { success: true }]);
          assert.equal(await seatsOf(world, person), seats);
        }
        assert.deepEqual(before, [5, 9, 9]);
        assert.deepEqual(
          received.map(({ method, path, body }) => [method, path, body]),
          [9, 9, 2].map((seats) => [
            "PATCH",
            `/v1/subscriptions/${subscription}`,
            { seats, proration_behavior: "invoice" },
          ]),
        );
      });
    }
  });

  test("what the provider refuses, or cannot be asked, changes nothing here", async (world) => {
    const { person } = await newSubscriber(world);
    for (
      const [status, code, answered] of [
        [402, "payment_provider_refused", 409],
        [403, "payment_provider_refused", 409],
        [500, "payment_provider_unavailable", 503],
      ] as const
    ) {
      await withPolar(() => Response.json({ detail: "card 4242" }, { status }), async (polar) => {
        const service = withSettings(world, polar);
        for (
          const refused of [
            await ask(service, person, "update-seats", { seats: 9 }),
            await ask(service, person, "create-checkout", {
              productId: "p",
              successUrl: "https://app.example",
            }),
            await ask(service, person, "customer-portal", { returnUrl: "https://app.example" }),
          ]
        ) {
          assertRefused(refused, answered, code);
          assert.equal(refused.headers.get("retry-after"), answered === 503 ? "2" : null);
          assert.ok(!refused.text.includes("4242"));
        }
      });
    }
    const off = withSettings(world, {});
    assertRefused(await ask(off, person, "update-seats", { seats: 9 }), 503, "billing_not_configured");
    assert.equal(await seatsOf(world, person), 5);
  });

  test("seats need a subscription at the provider, then a plan that has seats", async (world) => {
    await withPolar(() => Response.json({ id: "x" }), async (polar, received) => {
      const service = withSettings(world, polar);
      const [stranger, unpaid] = [await newPerson(world), await newPerson(world)];
      assertRefused(await ask(service, stranger, "update-seats", { seats: 2 }), 404, "no_polar_subscription");
      await ask(service, unpaid, "update-seats", { seats: 2 });
      await subscribe(world, unpaid, "hobby");
      assertRefused(await ask(service, unpaid, "update-seats", { seats: 2 }), 404, "no_polar_subscription");

      for (const plan of ["free", "hobby"]) {
        const { person } = await newSubscriber(world, plan);
        const refused = await ask(service, person, "update-seats", { seats: 2 });
        assertRefused(refused, 403, "plan_does_not_support_seats");
        assert.equal(refused.body.plan, plan);
      }
      const { person } = await newSubscriber(world);
      await world.sql.query(
        "update app.subscriptions set status = 'canceled' where account_id = (select id from app.accounts where subject = $1)",
        [person.subject],
      );
      assertRefused(await ask(service, person, "update-seats", { seats: 2 }), 404, "no_polar_subscription");
      assert.equal(received.length, 0);
    });
  });

  test("fewer seats than a team has taken are refused before the provider hears of it", async (world) => {
    const team = await newTeam(world);
    await subscribe(world, team.owner, "growth", { seats: 5, polarSubscriptionId: crypto.randomUUID() });
    for (let i = 0; i < 3; i++) await invite(world, team, `${crypto.randomUUID()}@example.com`);
    await withPolar(() => Response.json({ id: "x" }), async (polar, received) => {
      const service = withSettings(world, polar);
      const refused = await ask(service, team.owner, "update-seats", { seats: 3 });
      assertRefused(refused, 409, "seats_in_use");
      assert.equal(refused.body.seats_taken, 4);
      assert.equal(received.length, 0);
      assert.equal((await ask(service, team.owner, "update-seats", { seats: 4 })).status, 200);
    });
  });

  test("an invitation beyond the seats reaches the provider, and waits for its yes", async (world) => {
    const team = await newTeam(world);
    const subscription = `sub-${crypto.randomUUID()}`;
    await subscribe(world, team.owner, "growth", { seats: 1, polarSubscriptionId: subscription });
    let status = 402;
    await withPolar(() => Response.json({ id: subscription }, { status }), async (polar, received) => {
      const service = withSettings(world, polar);
      const guest = (service: Pick<World, "request">) =>
        service.request("POST", `/teams/${team.id}/invitations`, {
          token: team.owner.token,
          body: { email: `${crypto.randomUUID()}@example.com` },
        });
      assertRefused(await guest(service), 409, "payment_provider_refused");
      assert.equal(await seatsOf(world, team.owner), 1);
      status = 200;
      assert.equal((await guest(service)).status, 201);
      assert.equal(await seatsOf(world, team.owner), 2);
      assert.deepEqual(received.map(({ path, body }) => [path, body.seats]), [
        [`/v1/subscriptions/${subscription}`, 2],
        [`/v1/subscriptions/${subscription}`, 2],
      ]);
    });
  });
});

onOneBackend((test) => {
  test("a body that is wrong is 400 by its field, and a stranger is a stranger", async (world) => {
    const person = await newPerson(world);
    const service = withSettings(world, {});
    const good = { productId: "p", successUrl: "https://app.example", returnUrl: "https://app.example" };
    const wrong: [string, object, string][] = [
      ["create-checkout", { ...good, productId: undefined }, "missing_field:productId"],
      ["create-checkout", { ...good, successUrl: undefined }, "missing_field:successUrl"],
      ["create-checkout", { ...good, productId: "" }, "invalid_field:productId"],
      ["create-checkout", { ...good, productId: "x".repeat(129) }, "invalid_field:productId"],
      ["create-checkout", { ...good, productId: ["p"] }, "invalid_field:productId"],
      ["create-checkout", { ...good, successUrl: 7 }, "invalid_field:successUrl"],
      ["create-checkout", { ...good, successUrl: "https://evil.example" }, "invalid_field:successUrl"],
      ["customer-portal", {}, "missing_field:returnUrl"],
      ["customer-portal", { returnUrl: "https://evil.example" }, "invalid_field:returnUrl"],
      ["update-seats", {}, "missing_field:seats"],
      ...[0, -1, 1.5, "3", null, 2 ** 31, 2 ** 53].map((seats): [string, object, string] => [
        "update-seats",
        { seats },
        "invalid_field:seats",
      ]),
    ];
    for (const [path, body, code] of wrong) {
      assertRefused(await ask(service, person, path, body), 400, code, JSON.stringify(body));
    }
    for (const path of ["create-checkout", "customer-portal", "update-seats"]) {
      assertRefused(
        await service.request("POST", `/billing/${path}`, { body: good }),
        401,
        "missing_or_invalid_bearer_token",
      );
      assertRefused(
        await service.request("POST", `/billing/${path}`, { token: "sov_live_x", body: good }),
        401,
        "session_jwt_required",
      );
    }
  });
});
