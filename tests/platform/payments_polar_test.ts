/** Payments over HTTP, against a server that looks at all that it is sent and answers in every way providers do. */

import assert from "node:assert/strict";
import { readSettings } from "../../supabase/functions/_shared/env.ts";
import { ApiError } from "../../supabase/functions/_shared/errors.ts";
import { openPolar } from "../../supabase/functions/_shared/platform/payments_polar.ts";
import type { LogRecord } from "../../supabase/functions/_shared/platform/mod.ts";
import { type Received, SETTINGS, TOKEN, withPolar } from "../support/polar.ts";

const CHECKOUT = {
  subject: "auth0|ada",
  email: "ada@example.com",
  productId: "7d1f9c1e-0000-4000-8000-000000000001",
  successUrl: "https://app.example/paid?id={CHECKOUT_ID}",
};
const PORTAL = { subject: "auth0|ada", returnUrl: "https://app.example/account" };
const SECRETIVE = "you are ada@example.com and your card 4242 was declined";

type Provider = ReturnType<typeof openPolar>;

/** Every call, and the answer that makes it succeed. */
const CALLS: { name: string; call: (polar: Provider) => Promise<unknown>; good: object }[] = [
  {
    name: "checkout",
    call: ({ payments }) => payments.createCheckout(CHECKOUT),
    good: { id: "c1", url: "https://polar.example/checkout/c1" },
  },
  {
    name: "portal",
    call: ({ payments }) => payments.createPortalSession(PORTAL),
    good: { token: "t", customer_portal_url: "https://polar.example/portal?t=1" },
  },
  {
    name: "seats",
    call: ({ seats }) => seats.change("sub_1", 7),
    good: { id: "sub_1", seats: 7 },
  },
];

/** Runs `work` with a provider that answers as told. */
async function withProvider(
  answer: (received: Received) => Response | Promise<Response>,
  work: (polar: Provider, received: Received[], logs: LogRecord[]) => Promise<void>,
  timeoutMs?: number,
): Promise<void> {
  const logs: LogRecord[] = [];
  await withPolar(answer, async (settings, received) => {
    const polar = openPolar(
      { ...settings, apiUrl: `${settings.apiUrl}/base`, version: "2027-01" },
      (record) => void logs.push(record),
      timeoutMs,
    );
    await work(polar, received, logs);
  });
}

/** Asserts that a call fails with a code, and that the error tells nothing of the provider's answer. */
async function expectFailure(promise: Promise<unknown>, code: string, status: number): Promise<void> {
  const error = await promise.then(() => assert.fail("it went well"), (thrown) => thrown);
  assert.ok(error instanceof ApiError, String(error));
  assert.deepEqual([error.code, error.status, error.details], [code, status, {}]);
  const told = Deno.inspect(error, { depth: 10 });
  for (const secret of [SECRETIVE, TOKEN, "auth0|ada", "ada@example.com"]) assert.ok(!told.includes(secret));
}

function test(name: string, fn: () => Promise<void>): void {
  Deno.test({ name: `polar: ${name}`, sanitizeOps: false, sanitizeResources: false, fn });
}

function assertHeaders({ headers }: Received): void {
  assert.equal(headers.get("authorization"), `Bearer ${TOKEN}`);
  assert.equal(headers.get("polar-version"), "2027-01");
  assert.equal(headers.get("content-type"), "application/json");
  assert.equal(headers.get("accept"), "application/json");
}

test("a checkout is one request, field by field, and gives its address", () =>
  withProvider(() => Response.json(CALLS[0]!.good, { status: 201 }), async (polar, received) => {
    assert.equal(await polar.payments.createCheckout(CHECKOUT), "https://polar.example/checkout/c1");
    assert.equal(received.length, 1);
    assert.deepEqual([received[0]!.method, received[0]!.path], ["POST", "/base/v1/checkouts/"]);
    assertHeaders(received[0]!);
    assert.deepEqual(received[0]!.body, {
      products: [CHECKOUT.productId],
      external_customer_id: "auth0|ada",
      customer_email: "ada@example.com",
      success_url: CHECKOUT.successUrl,
      metadata: { source: "v2-agent-state" },
    });
  }));

test("a checkout without an address of the person says nothing of one", () =>
  withProvider(() => Response.json(CALLS[0]!.good), async (polar, received) => {
    await polar.payments.createCheckout({ ...CHECKOUT, email: null });
    assert.ok(!("customer_email" in received[0]!.body));
  }));

test("a portal session is one request, field by field, and gives its address", () =>
  withProvider(() => Response.json(CALLS[1]!.good, { status: 201 }), async (polar, received) => {
    assert.equal(await polar.payments.createPortalSession(PORTAL), "https://polar.example/portal?t=1");
    assert.equal(received.length, 1);
    assert.deepEqual([received[0]!.method, received[0]!.path], ["POST", "/base/v1/customer-sessions/"]);
    assertHeaders(received[0]!);
    assert.deepEqual(received[0]!.body, { external_customer_id: "auth0|ada", return_url: PORTAL.returnUrl });
  }));

test("seats are one request, field by field, and no id can bend its path", () =>
  withProvider(() => Response.json(CALLS[2]!.good), async (polar, received) => {
    await polar.seats.change("sub_1", 7);
    assert.deepEqual([received[0]!.method, received[0]!.path], ["PATCH", "/base/v1/subscriptions/sub_1"]);
    assertHeaders(received[0]!);
    assert.deepEqual(received[0]!.body, { seats: 7, proration_behavior: "invoice" });
    await polar.seats.change("../customers/x?y#z", 1);
    assert.equal(received[1]!.path, "/base/v1/subscriptions/..%2Fcustomers%2Fx%3Fy%23z");
  }));

const STATUSES: [number, "refused" | "unavailable"][] = [
  ...[400, 402, 403, 404, 405, 409, 410, 412, 422, 451].map((status): [number, "refused"] => [
    status,
    "refused",
  ]),
  ...[401, 408, 425, 429, 500, 501, 502, 503, 504].map((status): [number, "unavailable"] => [
    status,
    "unavailable",
  ]),
];

for (const { name, call, good } of CALLS) {
  for (const [status, what] of STATUSES) {
    test(`${name}: ${status} is ${what}, asked once, and its text stays there`, () =>
      withProvider(
        () => Response.json({ error: "Oops", detail: SECRETIVE, ...good }, { status }),
        async (polar, received, logs) => {
          await expectFailure(call(polar), `payment_provider_${what}`, what === "refused" ? 409 : 503);
          assert.equal(received.length, 1);
          assert.deepEqual(logs, [{ level: "warn", event: "payment_provider_failed", status }]);
        },
      ));
  }

  test(`${name}: a redirect is not followed: the token goes nowhere else`, () =>
    withProvider(
      ({ path }) =>
        path.startsWith("/base/")
          ? new Response(null, { status: 307, headers: { location: "/elsewhere" } })
          : Response.json(good),
      async (polar, received) => {
        await expectFailure(call(polar), "payment_provider_unavailable", 503);
        assert.equal(received.length, 1);
      },
    ));

  for (
    const text of [
      "",
      "<html>",
      "null",
      "[]",
      "{}",
      '"https://x.example"',
      '{"url":1}',
      '{"url":"javascript:0"}',
    ]
  ) {
    test(`${name}: a yes that is not the provider's (${text || "nothing"}) is no yes`, () =>
      withProvider(
        () => new Response(text, { status: 200 }),
        (polar) => expectFailure(call(polar), "payment_provider_unavailable", 503),
      ));
  }

  test(`${name}: a provider that does not answer in time is unavailable`, async () => {
    const { promise, resolve } = Promise.withResolvers<Response>();
    await withProvider(
      () => promise,
      async (polar) => {
        await expectFailure(call(polar), "payment_provider_unavailable", 503);
        resolve(Response.json(good));
      },
      50,
    );
  });

  test(`${name}: a provider that hangs after its first words is unavailable`, () =>
    withProvider(
      () => new Response(new ReadableStream({ start: (it) => it.enqueue(new TextEncoder().encode("{")) })),
      (polar) => expectFailure(call(polar), "payment_provider_unavailable", 503),
      50,
    ));

  test(`${name}: a provider that nobody listens for is unavailable`, async () => {
    let closed = SETTINGS;
    await withPolar(() => Response.json(good), (settings) => Promise.resolve(void (closed = settings)));
    await expectFailure(call(openPolar(closed, () => {})), "payment_provider_unavailable", 503);
  });

  test(`${name}: without a token nothing is asked: billing_not_configured`, () =>
    withPolar(() => Response.json(good), async (settings, received) => {
      const polar = openPolar({ ...settings, accessToken: undefined }, () => {});
      await expectFailure(call(polar), "billing_not_configured", 503);
      assert.equal(received.length, 0);
    }));
}

test("the settings: production by default, a sandbox by configuration, the base without slashes", () => {
  const { polar, billingReturnOrigins } = readSettings({ POLAR_ACCESS_TOKEN: "" });
  assert.deepEqual(polar, {
    accessToken: undefined,
    apiUrl: "https://api.polar.sh",
    version: "2026-10",
    webhookSecrets: [],
    products: {},
  });
  assert.deepEqual(billingReturnOrigins, []);
  const set = readSettings({
    POLAR_ACCESS_TOKEN: TOKEN,
    POLAR_API_URL: "https://sandbox-api.polar.sh/",
    POLAR_VERSION: "2027-01",
    POLAR_WEBHOOK_SECRET: " whsec_a  polar_whs_b ",
    POLAR_PRODUCTS: '{"p1":"pro","p2":"enterprise"}',
    BILLING_RETURN_ORIGINS: "https://a.example, http://localhost:*,",
    APP_URL: "https://app.example/x",
  });
  assert.deepEqual(set.polar, {
    accessToken: TOKEN,
    apiUrl: "https://sandbox-api.polar.sh",
    version: "2027-01",
    webhookSecrets: ["whsec_a", "polar_whs_b"],
    products: { p1: "pro", p2: "enterprise" },
  });
  assert.deepEqual(set.billingReturnOrigins, ["https://a.example", "http://localhost:*"]);
  assert.deepEqual(readSettings({ APP_URL: "https://app.example/x" }).billingReturnOrigins, [
    "https://app.example",
  ]);
  return Promise.resolve();
});

test("settings that are wrong are refused by name, and no secret is quoted", () => {
  const wrong: [string, string][] = [
    ["POLAR_API_URL", "http://api.polar.example"],
    ["POLAR_ACCESS_TOKEN", "hush\r\nhush"],
    ["POLAR_VERSION", "2026\n10"],
    ["POLAR_PRODUCTS", "hush"],
    ["POLAR_PRODUCTS", '["pro"]'],
    ["POLAR_PRODUCTS", '{"hush":"platinum"}'],
    ["BILLING_RETURN_ORIGINS", "app.example"],
    ["BILLING_RETURN_ORIGINS", "*"],
    ["BILLING_RETURN_ORIGINS", "https://app.example/"],
    ["BILLING_RETURN_ORIGINS", "https://app.example/path"],
    ["BILLING_RETURN_ORIGINS", "http://app.example"],
    ["BILLING_RETURN_ORIGINS", "https://a.example,javascript:alert(1)"],
  ];
  for (const [name, value] of wrong) {
    assert.throws(
      () => readSettings({ [name]: value }),
      ({ message }: Error) => message.includes(name) && !message.includes("hush"),
      `${name}=${value}`,
    );
  }
  return Promise.resolve();
});
