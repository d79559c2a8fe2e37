/** What the payment provider's events mean: plan, status and quotas, and what an order is worth. Spec 6. */

import { type Plan, quotasOf } from "./plans.ts";

export const SUBSCRIPTION_KINDS = [
  "subscription.created",
  "subscription.active",
  "subscription.updated",
  "subscription.canceled",
  "subscription.revoked",
] as const;
export type SubscriptionKind = typeof SUBSCRIPTION_KINDS[number];

export const ORDER_KINDS = ["order.paid", "order.refunded"] as const;

const PLANS: readonly Plan[] = ["free", "hobby", "pro", "growth", "enterprise"];
/** What one order may be worth, in milli-cents: as much as an operator may grant at once. */
const CREDITS_MILLI_MAX = 1_000_000_000_000;
/** Statuses with a right to the plan; while a payment is late the provider still tries. */
const ENTITLED = ["active", "trialing", "past_due"];
const WHOLE_PPM = 1_000_000;

type Metadata = Record<string, unknown>;

/** The plan of a product: by the operator's table, else by the product's `plan`; Free for one that nobody knows. */
export function planOf(
  productId: string,
  metadata: Metadata,
  products: Readonly<Record<string, string>>,
): Plan {
  const named = Object.hasOwn(products, productId) ? products[productId] : metadata.plan;
  return PLANS.find((plan) => plan === named) ?? "free";
}

/** The status that an event leads to, given what the subscription itself says. Spec 3 and 6. */
export function statusAfter(kind: SubscriptionKind, status: string): string {
  switch (kind) {
    case "subscription.created":
    case "subscription.active":
      return "active";
    case "subscription.updated":
      return status === "incomplete_expired" ? "canceled" : status;
    case "subscription.canceled":
    case "subscription.revoked":
      return "canceled";
  }
}

/** The quotas of a plan in a status: those of Free unless the status gives a right to more. */
export function quotasIn(status: string, plan: Plan) {
  return quotasOf(ENTITLED.includes(status) ? plan : "free");
}

/**
 * Milli-cents that a product is worth, or null when it is no credit pack. The dashboard of the provider keeps
 * metadata as text, its interface as numbers too.
 */
export function creditsOf(metadata: Metadata): number | null {
  const named = metadata.credits_milli;
  const text = typeof named === "number" ? String(named) : named;
  if (typeof text !== "string" || !/^[1-9][0-9]{0,12}$/.test(text)) return null;
  return Number(text) <= CREDITS_MILLI_MAX ? Number(text) : null;
}

/** How much of an order was refunded in all, in millionths of its price, rounded up. */
export function refundedPpm(order: {
  status: string;
  net_amount: number | null;
  refunded_amount: number | null;
}): number {
  const { status, net_amount: price, refunded_amount: refunded } = order;
  if (status === "refunded" || price === null || price <= 0 || refunded === null) return WHOLE_PPM;
  return Math.min(WHOLE_PPM, Math.ceil(refunded * WHOLE_PPM / price));
}
