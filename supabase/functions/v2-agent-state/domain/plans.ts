/** Plans and their quotas. Spec 2.9 and section 8. */

/** "Unlimited" as a number that every JSON reader keeps exact. */
export const UNLIMITED = Number.MAX_SAFE_INTEGER;

export type Plan = "free" | "hobby" | "pro" | "growth" | "enterprise";

/** Devices that may be linked on each plan; the only quota in which plans differ. */
export const DEVICE_QUOTA: Record<Plan, number> = {
  free: 3,
  hobby: 3,
  pro: 10,
  growth: 25,
  enterprise: UNLIMITED,
};

/** The quotas of a plan, as a subscription shows them. */
export function quotasOf(plan: Plan) {
  return {
    quota_sync_ops: UNLIMITED,
    quota_storage_bytes: UNLIMITED,
    quota_subkeys: UNLIMITED,
    quota_devices: DEVICE_QUOTA[plan],
  };
}

/** What `GET /billing/subscription` shows of an account that never subscribed: Free, by the calendar month. */
export function freeSubscription(subject: string, now: Date) {
  const nextMonth = new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1, 1));
  return {
    user_id: subject,
    plan: "free",
    status: "active",
    ...quotasOf("free"),
    polar_customer_id: null,
    polar_subscription_id: null,
    current_period_end: nextMonth.toISOString(),
  };
}
