/** Events of the payment provider: verified, parsed, applied once. Spec 6. */

import { z } from "zod";
import type { AppContext } from "../../_shared/context.ts";
import { parse, parseBody } from "../../_shared/middleware/parse.ts";
import { instant, memberId, text } from "../../_shared/middleware/shapes.ts";
import {
  creditsOf,
  ORDER_KINDS,
  planOf,
  quotasIn,
  refundedPpm,
  statusAfter,
  SUBSCRIPTION_KINDS,
} from "../domain/billing.ts";

/** An instant to the microsecond, as Postgres keeps it: what is newer is decided by it. */
const moment = z.string().transform((value, context) => {
  const read = instant.safeParse(value);
  if (!read.success || !value.includes("T")) context.addIssue({ code: "custom", message: "invalid" });
  const fraction = (/\.(\d{1,6})/.exec(value)?.[1] ?? "").padEnd(6, "0");
  return `${(read.data ?? "").slice(0, 19)}.${fraction}Z`;
});
const objectId = z.string().regex(/^[A-Za-z0-9_-]{1,128}$/);
const amount = z.int().min(0).nullish().transform((value) => value ?? null);
const metadata = z.record(z.string(), z.unknown()).nullish().transform((value) => value ?? {});

/** What both kinds of object have. A customer without an external id is not one of ours. */
const OBJECT = z.object({
  id: objectId,
  status: text(64),
  customer: z.object({ external_id: memberId.nullish().transform((value) => value ?? null) }),
  product: z.object({ metadata }).nullish(),
  created_at: moment,
  modified_at: moment.nullish(),
});

export const SUBSCRIPTION = z.object({
  type: z.enum(SUBSCRIPTION_KINDS),
  data: OBJECT.extend({
    customer_id: objectId,
    product_id: objectId,
    seats: z.int().min(0).max(2_147_483_647).nullish(),
    current_period_start: moment.nullish(),
    current_period_end: moment.nullish(),
  }).refine(
    ({ current_period_start: start, current_period_end: end }) => !start || !end || start < end,
    { path: ["current_period_end"] },
  ),
});

export const ORDER = z.object({
  type: z.enum(ORDER_KINDS),
  data: OBJECT.extend({ net_amount: amount, refunded_amount: amount }),
});

/** An event of any kind. */
export const EVENT = z.looseObject({ type: text(128) });

/**
 * POST /billing/webhook: 200 `{received, outcome}`, also for what was seen before and for kinds that we do not know.
 * Errors: `invalid_webhook_signature`, `billing_not_configured`; 400 for a signed event of an unreadable shape.
 */
export async function receiveBillingEvent(c: AppContext): Promise<Response> {
  const webhookId = c.var.platform.payments.verifyEvent({
    id: c.req.header("webhook-id"),
    timestamp: c.req.header("webhook-timestamp"),
    signature: c.req.header("webhook-signature"),
  }, await c.req.arrayBuffer());
  const event = await parseBody(c, EVENT);
  const { outcome } = isOneOf(SUBSCRIPTION_KINDS, event.type)
    ? await applySubscription(c, webhookId, await parse(c, SUBSCRIPTION, event))
    : isOneOf(ORDER_KINDS, event.type)
    ? await applyOrder(c, webhookId, await parse(c, ORDER, event))
    : await record(c, webhookId, event.type, null, "ignored");
  return c.json({ received: true, outcome });
}

interface Outcome {
  outcome: string;
}

async function applySubscription(
  c: AppContext,
  webhookId: string,
  { type, data }: z.output<typeof SUBSCRIPTION>,
): Promise<Outcome> {
  const subject = data.customer.external_id;
  if (subject === null) return await record(c, webhookId, type, data.id, "no_customer");
  const plan = planOf(data.product_id, data.product?.metadata ?? {}, c.var.settings.polar.products);
  if (plan === "free") c.var.platform.log({ level: "warn", event: "polar_product_without_plan" });
  const status = statusAfter(type, data.status);
  const quotas = quotasIn(status, plan);
  return await c.var.platform.db.call("apply_subscription_event", {
    p_webhook_id: webhookId,
    p_kind: type,
    p_subscription_id: data.id,
    p_subject: subject,
    p_customer_id: data.customer_id,
    p_plan: plan,
    p_status: status,
    p_quota_sync_ops: quotas.quota_sync_ops,
    p_quota_storage_bytes: quotas.quota_storage_bytes,
    p_quota_subkeys: quotas.quota_subkeys,
    p_quota_devices: quotas.quota_devices,
    p_seats: data.seats ?? null,
    p_period_start: data.current_period_start ?? null,
    p_period_end: data.current_period_end ?? null,
    p_created_at: data.created_at,
    p_modified_at: data.modified_at ?? data.created_at,
  });
}

/** A refund is applied without looking at the product: it may come before the payment that says what it is of. */
async function applyOrder(
  c: AppContext,
  webhookId: string,
  { type, data }: z.output<typeof ORDER>,
): Promise<Outcome> {
  const subject = data.customer.external_id;
  if (subject === null) return await record(c, webhookId, type, data.id, "no_customer");
  const paid = type === "order.paid";
  const credits = paid ? creditsOf(data.product?.metadata ?? {}) : null;
  if (paid && credits === null) return await record(c, webhookId, type, data.id, "no_credits");
  return await c.var.platform.db.call("apply_order_event", {
    p_webhook_id: webhookId,
    p_kind: type,
    p_order_id: data.id,
    p_subject: subject,
    p_credits_milli: credits,
    p_refunded_ppm: paid ? null : refundedPpm(data),
    p_modified_at: data.modified_at ?? data.created_at,
  });
}

/** Keeps an event that changes nothing; the operator hears of one that might have been meant to. */
async function record(
  c: AppContext,
  webhookId: string,
  kind: string,
  objectId: string | null,
  outcome: string,
): Promise<Outcome> {
  if (outcome !== "ignored") {
    c.var.platform.log({ level: "warn", event: "polar_event_without_effect", kind, outcome });
  }
  return await c.var.platform.db.call("record_polar_event", {
    p_webhook_id: webhookId,
    p_kind: kind,
    p_object_id: objectId,
    p_outcome: outcome,
  });
}

function isOneOf<T extends string>(kinds: readonly T[], kind: string): kind is T {
  return (kinds as readonly string[]).includes(kind);
}
