/** The payment provider for tests: signed events, and a server that looks at all that it is sent. */

import assert from "node:assert/strict";
import { Webhook } from "standardwebhooks";
import type { PolarSettings } from "../../supabase/functions/_shared/env.ts";
import { openPolar } from "../../supabase/functions/_shared/platform/payments_polar.ts";
import type { Answer, World } from "./harness.ts";

/** The vector of the Standard Webhooks specification. */
export const VECTOR = {
  secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
  id: "msg_p5jXN8AQM9LWM0D4loKWxJek",
  timestamp: 1_614_265_330,
  body: '{"test": 2432232314}',
  signature: "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
};

export const SECRET = VECTOR.secret;
export const TOKEN = "polar_oat_test";
export const PRODUCTS = { "product-pro": "pro", "product-growth": "growth", "product-hobby": "hobby" };

/** Settings of a provider with a webhook secret and products, but nobody to call. */
export const SETTINGS: PolarSettings = {
  accessToken: undefined,
  apiUrl: "http://127.0.0.1:9",
  version: "2026-10",
  webhookSecrets: [SECRET],
  products: PRODUCTS,
};

/** A request that the provider got. */
export interface Received {
  method: string;
  path: string;
  headers: Headers;
  text: string;
  // deno-lint-ignore no-explicit-any
  body: any;
}

/** Runs `work` with a provider that answers as told, and everything that it got. */
export async function withPolar(
  answer: (received: Received) => Response | Promise<Response>,
  work: (settings: PolarSettings, received: Received[]) => Promise<void>,
): Promise<void> {
  const received: Received[] = [];
  const abort = new AbortController();
  const server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, signal: abort.signal, onListen() {} },
    async (request) => {
      const { pathname, search } = new URL(request.url);
      const text = await request.text();
      const each = {
        method: request.method,
        path: pathname + search,
        headers: request.headers,
        text,
        body: text === "" ? undefined : JSON.parse(text),
      };
      received.push(each);
      return await answer(each);
    },
  );
  try {
    await work({ ...SETTINGS, accessToken: TOKEN, apiUrl: `http://127.0.0.1:${server.addr.port}` }, received);
  } finally {
    abort.abort();
    await server.finished;
  }
}

/** The service with a provider of these settings. */
export function withSettings(
  world: World,
  polar: Partial<PolarSettings>,
  billingReturnOrigins: string[] = ["https://app.example"],
): ReturnType<World["with"]> {
  const settings = { ...SETTINGS, ...polar };
  return world.with({
    ...openPolar(settings, () => {}),
    settings: { polar: settings, billingReturnOrigins },
  });
}

/** How an event is signed, where it differs from a good one. */
export interface Signing {
  id?: string;
  secret?: string;
  /** Whether the key is the whole text of the secret. */
  raw?: boolean;
  at?: Date;
  /** Headers instead of the good ones; undefined leaves one out. */
  headers?: Record<string, string | undefined>;
}

/** The headers of a signed event. */
export function sign(body: string, over: Signing = {}): Record<string, string> {
  const { id = `msg_${crypto.randomUUID()}`, secret = SECRET, raw = false, at = new Date() } = over;
  const webhook = raw ? new Webhook(secret, { format: "raw" }) : new Webhook(secret);
  const headers = {
    "webhook-id": id,
    "webhook-timestamp": String(Math.floor(at.getTime() / 1000)),
    "webhook-signature": webhook.sign(id, at, body),
    ...over.headers,
  };
  return Object.fromEntries(
    Object.entries(headers).filter((entry): entry is [string, string] => entry[1] !== undefined),
  );
}

/** Sends a signed event: a string goes out as it is. */
export async function post(
  service: Pick<World, "request">,
  event: unknown,
  signing: Signing = {},
): Promise<Answer> {
  const body = typeof event === "string" ? event : JSON.stringify(event);
  return await service.request("POST", "/billing/webhook", { body, headers: sign(body, signing) });
}

/** A subscription as the provider shows it. */
export function subscription(over: Record<string, unknown> = {}): Record<string, unknown> {
  return {
    id: `sub-${crypto.randomUUID()}`,
    status: "active",
    customer_id: "customer-1",
    customer: { id: "customer-1", external_id: `user-${crypto.randomUUID()}`, email: null },
    product_id: "product-pro",
    product: { id: "product-pro", metadata: {} },
    seats: null,
    current_period_start: "2026-11-03T04:05:06.000000Z",
    current_period_end: "2100-01-01T00:00:00.000000Z",
    created_at: "2026-11-01T00:00:00.000000Z",
    modified_at: null,
    ...over,
  };
}

/** An order of a credit pack as the provider shows it. */
export function order(over: Record<string, unknown> = {}): Record<string, unknown> {
  return {
    id: `order-${crypto.randomUUID()}`,
    status: "paid",
    customer: { id: "customer-1", external_id: `user-${crypto.randomUUID()}` },
    product: { id: "pack", metadata: { credits_milli: 1_000_000 } },
    net_amount: 1_000,
    refunded_amount: 0,
    created_at: "2026-11-01T00:00:00Z",
    modified_at: null,
    ...over,
  };
}

/** An event about an object. */
export function event(type: string, data: unknown): Record<string, unknown> {
  return { type, timestamp: new Date().toISOString(), data };
}

/** A person's id from one of the objects above. */
export function userOf(object: Record<string, unknown>): string {
  return (object.customer as { external_id: string }).external_id;
}

/** Sends an event that has to be taken, and returns what became of it. */
export async function take(
  world: World,
  type: string,
  data: unknown,
  signing: Signing = {},
): Promise<string> {
  const answer = await post(withSettings(world, {}), event(type, data), signing);
  assert.equal(answer.status, 200, answer.text);
  assert.equal(answer.body.received, true);
  return answer.body.outcome;
}

/** Milli-cents of a person. */
export async function creditsOf(world: World, user: string): Promise<number> {
  return (await world.platform.db.call<{ credits_milli: number }>("read_balance", { p_subject: user }))
    .credits_milli;
}
