/** What people do with a session for themselves: keys, settings, telemetry, billing. Spec 4.4, 4.6, 4.7. */

import { z } from "zod";
import type { Operations } from "../../_shared/reference/operation.ts";
import { bytes, count, time, url, uuid, words } from "../../_shared/reference/shapes.ts";
import { REPORT, SETTINGS } from "../handlers/account.ts";
import { KEY, NEW_KEY } from "../handlers/api_keys.ts";
import { CHECKOUT, PORTAL, SEATS } from "../handlers/billing.ts";
import { EVENT, ORDER, SUBSCRIPTION } from "../handlers/billing_webhook.ts";
import { type Scene, SHOWN } from "./scene.ts";

const PREFIX = z.literal("sov_live_");
const SCOPES = z.array(z.literal("vault:check_in")).optional().describe("Absent on an ordinary key");
const NEW_KEY_ANSWER = z.object({
  id: uuid(SHOWN.keyId),
  label: words("laptop"),
  prefix: PREFIX,
  masked_key: words("sov_live_…x7Kq"),
  raw_secret: words("sov_live_4fXqUuB2m9…").describe("Shown in this answer and never again"),
  created_at: time,
  scopes: SCOPES,
}).meta({ id: "NewApiKey" });
const LISTED_KEY = z.object({
  id: uuid(SHOWN.keyId),
  label: words("laptop"),
  prefix: PREFIX,
  created_at: time,
  revoked_at: time.nullable(),
  last_used_at: time.nullable(),
  state: z.enum(["active", "revoked"]),
  scopes: SCOPES,
}).meta({ id: "ApiKey" });

/** What revoking a key answers, of an account or of a team. */
export const REVOKED_KEY = z.object({
  id: uuid(SHOWN.keyId),
  revoked_at: time,
  message: z.literal("api_key_revoked"),
}).meta({ id: "RevokedApiKey" });

const SHOWN_SETTINGS = z.object({
  settings: z.object({
    project_name: words("Night shift"),
    project_desc: words("Agents that work while we sleep"),
    session_lock: z.boolean().meta({ examples: [false] }),
    hosted_sync: z.boolean().meta({ examples: [true] }),
    telemetry_opt_in: z.boolean().meta({ examples: [true] }),
  }).meta({ id: "Settings" }),
});
const AGGREGATE = z.object({
  aggregate: z.object({
    user_id: words("user-1"),
    window_start: time,
    memory_count: count(120),
    device_count: count(2),
    bytes_stored: count(81_920),
    sync_ops: count(37),
    reported_at: time,
  }).meta({ id: "TelemetryAggregate" }),
});

const PLAN = z.enum(["free", "hobby", "pro", "growth", "enterprise"]);
const SHOWN_SUBSCRIPTION = z.object({
  subscription: z.object({
    user_id: words("user-1"),
    plan: PLAN,
    status: words("active"),
    quota_sync_ops: count(9_007_199_254_740_991),
    quota_storage_bytes: count(9_007_199_254_740_991),
    quota_subkeys: count(9_007_199_254_740_991),
    quota_devices: count(3),
    polar_customer_id: words("customer-1").nullable(),
    polar_subscription_id: words("subscription-1").nullable(),
    current_period_end: time.nullable(),
    seat_count: count(5).optional().describe("On plans that scale by seats only"),
    included_seats: count(5).nullable().optional().describe("On plans that scale by seats only"),
  }).meta({ id: "Subscription" }),
});
const USAGE = z.object({
  usage: z.object({
    sync_ops: count(12),
    store_ops: count(14),
    recall_requests: count(3),
    bytes_stored: count(81_920),
    devices: count(2),
  }).meta({ id: "Usage" }),
});
const LINK = z.object({ url: url("https://polar.example.com/checkout/1") }).meta({ id: "Link" });
const SALT = z.object({ kdf_salt: bytes("d2hhdCBhIHBhc3NwaHJhc2UgaXMgc3RyZXRjaGVkIHc=") }).meta({
  id: "KdfSalt",
});

const PROVIDER_ERRORS = [
  "billing_not_configured",
  "payment_provider_refused",
  "payment_provider_unavailable",
] as const;

/** An event of the payment provider, cut to what is read of it. */
const POLAR_EVENT = {
  type: "order.paid",
  timestamp: "2026-11-20T12:00:00Z",
  data: {
    id: "order-1",
    status: "paid",
    customer: { external_id: "user-1" },
    product: { metadata: { credits_milli: 5_000_000 } },
    net_amount: 5_000,
    refunded_amount: 0,
    created_at: "2026-11-20T12:00:00Z",
    modified_at: null,
  },
};

export const ACCOUNT_OPERATIONS: Operations<Scene> = {
  "POST /api-keys": {
    tag: "API keys",
    summary: "Make a key for an agent",
    body: NEW_KEY,
    fields: { name: "1 to 128 characters", scopes: "A key that may do this alone; absent: an ordinary key" },
    answers: { 201: { body: NEW_KEY_ANSWER } },
    example: () => ({ body: { name: "laptop" } }),
  },
  "GET /api-keys": {
    tag: "API keys",
    summary: "List all keys, active and revoked, newest first",
    answers: { 200: { body: z.array(LISTED_KEY) } },
    example: () => ({}),
  },
  "DELETE /api-keys/:id": {
    tag: "API keys",
    summary: "Revoke a key for good",
    path: KEY,
    answers: { 200: { body: REVOKED_KEY } },
    errors: ["api_key_not_found"],
    example: ({ keyId }) => ({ path: { id: keyId } }),
  },
  "GET /settings": {
    tag: "Settings and telemetry",
    summary: "Read settings",
    description: "The defaults when nothing was saved.",
    answers: { 200: { body: SHOWN_SETTINGS } },
    example: () => ({}),
  },
  "PUT /settings": {
    tag: "Settings and telemetry",
    summary: "Change the settings that are given",
    body: SETTINGS,
    answers: { 200: { body: SHOWN_SETTINGS } },
    example: () => ({ body: { project_name: "Night shift", telemetry_opt_in: true } }),
  },
  "POST /telemetry": {
    tag: "Settings and telemetry",
    summary: "Report a day's aggregate",
    description:
      "Only when `telemetry_opt_in` is set. One row a day: a later report replaces what it mentions.",
    body: REPORT,
    fields: { window_start: "ISO 8601 date, or date and time; its day in UTC counts. Today when absent" },
    answers: { 201: { body: AGGREGATE } },
    errors: ["telemetry_disabled", "non_aggregate_field"],
    example: () => ({
      body: {
        memory_count: 120,
        device_count: 2,
        bytes_stored: 81_920,
        sync_ops: 37,
        window_start: "2026-11-20",
      },
    }),
  },
  "GET /account/kdf-salt": {
    tag: "Settings and telemetry",
    summary: "The salt that the client stretches its passphrase with",
    description: "32 bytes, made at the first request and the same for ever.",
    answers: { 200: { body: SALT } },
    example: () => ({}),
  },
  "GET /kdf-salt": {
    tag: "Settings and telemetry",
    summary: "The same as `/account/kdf-salt`",
    id: "readKdfSaltShort",
    answers: { 200: { body: SALT } },
    example: () => ({}),
  },
  "GET /billing/subscription": {
    tag: "Billing",
    summary: "The plan, its quotas and its seats",
    answers: { 200: { body: SHOWN_SUBSCRIPTION } },
    example: () => ({}),
  },
  "GET /billing/usage": {
    tag: "Billing",
    summary: "What the caller's keys used in the running cycle",
    answers: { 200: { body: USAGE } },
    example: () => ({}),
  },
  "POST /billing/create-checkout": {
    tag: "Billing",
    summary: "Where to pay for a product",
    body: CHECKOUT,
    fields: { successUrl: "Where to go after; its origin has to be allowed by the deployment" },
    answers: { 200: { body: LINK } },
    errors: PROVIDER_ERRORS,
    example: () => ({ body: { productId: "product-pro", successUrl: "https://app.example/welcome" } }),
  },
  "POST /billing/customer-portal": {
    tag: "Billing",
    summary: "Where to see what was paid",
    body: PORTAL,
    fields: { returnUrl: "Where to go after; its origin has to be allowed by the deployment" },
    answers: { 200: { body: LINK } },
    errors: PROVIDER_ERRORS,
    example: () => ({ body: { returnUrl: "https://app.example/billing" } }),
  },
  "POST /billing/update-seats": {
    tag: "Billing",
    summary: "Change how many seats are paid for",
    body: SEATS,
    answers: { 200: { body: z.object({ success: z.literal(true) }) } },
    errors: ["no_polar_subscription", "plan_does_not_support_seats", "seats_in_use", ...PROVIDER_ERRORS],
    example: () => ({ body: { seats: 7 } }),
  },
  "POST /billing/webhook": {
    tag: "Billing",
    summary: "Take an event of the payment provider",
    description:
      "Signed as Standard Webhooks say. Kinds that are not known, and what was seen before, are answered " +
      "with 200 as well.",
    headers: z.object({
      "webhook-id": words("msg_2KWPBgLlAfxdpx2AI54pPJ85f4W"),
      "webhook-timestamp": words("1795176000"),
    }),
    body: z.union([SUBSCRIPTION, ORDER, EVENT]),
    answers: {
      200: {
        body: z.object({
          received: z.literal(true),
          outcome: z.enum(["applied", "duplicate", "stale", "ignored", "no_customer", "no_credits"]),
        }),
      },
    },
    example: ({ sign }) => ({ headers: sign(JSON.stringify(POLAR_EVENT)), body: POLAR_EVENT }),
  },
};
