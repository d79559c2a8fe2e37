/** Delivers what webhooks are owed: claim → sign and send → say what became of it. */

import type { HookAnswer, Platform } from "../platform/mod.ts";
import { deliverMailSoon, type DeliverySettings } from "./deliver_mail.ts";
import { runSoon } from "./run_soon.ts";

/** Far longer than one delivery takes, so that nobody else sends it meanwhile. */
const LEASE_SECONDS = 60;
/** After this time a run claims nothing more: slow endpoints must not keep a worker alive. */
const RUN_MS_MAX = 20_000;
/** Deliveries under way at once in one run, each to another endpoint. */
const PARALLEL = 20;
/** Deliveries of one run right after a response; the rest goes with the next run. */
const SOON_LIMIT = 50;

/** What one run did. */
export interface WebhookReport {
  delivered: number;
  failed: number;
}

interface ClaimedDelivery {
  id: string;
  webhook_id: string;
  url: string;
  event_type: string;
  payload: string;
  attempt: number;
  secret: string;
  previous_secret: string | null;
}

/** Platforms whose deliveries are under way by {@link deliverWebhooksSoon}; whether somebody has asked again since. */

/**
 * Delivers at most `limit` deliveries that are due, twenty at once and never two to the same endpoint. An endpoint that
 * is slow holds one of the twenty; the others go on. Any number of runs may go on at once. A delivery that fails waits
 * for its next attempt and stops no other. Errors: those of the database when nothing can be claimed.
 */
export async function deliverWebhooks(
  platform: Platform,
  settings: DeliverySettings,
  limit: number,
): Promise<WebhookReport> {
  const report = { delivered: 0, failed: 0 };
  const startedAt = performance.now();
  let left = limit;

  async function claim(count: number): Promise<ClaimedDelivery[]> {
    const asked = Math.min(count, left);
    if (asked <= 0 || performance.now() - startedAt > RUN_MS_MAX) return [];
    left -= asked;
    const claimed = await platform.db.rows<ClaimedDelivery>("claim_deliveries", {
      p_limit: asked,
      p_lease_seconds: LEASE_SECONDS,
    }, []);
    left += asked - claimed.length;
    return claimed;
  }

  async function work(first: ClaimedDelivery): Promise<void> {
    for (let each: ClaimedDelivery | undefined = first; each !== undefined; [each] = await claim(1)) {
      report[await deliverOne(platform, settings, each)]++;
    }
  }

  await Promise.all((await claim(PARALLEL)).map(work));
  return report;
}

/** Delivers what is due without making the caller wait. */
export const deliverWebhooksSoon = runSoon<DeliverySettings>(
  (platform, settings) => deliverWebhooks(platform, settings, SOON_LIMIT),
  "webhooks_not_claimed",
);

async function deliverOne(
  platform: Platform,
  settings: DeliverySettings,
  { id, webhook_id, url, event_type, payload, attempt, secret, previous_secret }: ClaimedDelivery,
): Promise<"delivered" | "failed"> {
  const secrets = previous_secret === null ? [secret] : [secret, previous_secret];
  const answer = await platform.hooks.send({ id, url, payload, secrets });
  if (answer.error !== null) {
    const { error } = answer;
    platform.log({
      level: "warn",
      event: "webhook_not_delivered",
      delivery_id: id,
      webhook_id,
      event_type,
      attempt,
      error,
    });
  }
  if (await finish(platform, id, attempt, answer)) deliverMailSoon(platform, settings);
  return answer.error === null ? "delivered" : "failed";
}

/**
 * Says what became of an attempt; resolves to whether the webhook was disabled for it, of which its owner is owed a
 * mail. When even this cannot be said now, the lease runs out and the delivery is tried again: twice rather than never.
 */
async function finish(platform: Platform, id: string, attempt: number, answer: HookAnswer): Promise<boolean> {
  try {
    const outcome = await platform.db.call<{ webhook_disabled: boolean } | null>("finish_delivery", {
      p_delivery_id: id,
      p_attempt: attempt,
      p_status: answer.status,
      p_error: answer.error,
      p_retry_after_seconds: answer.retryAfterSeconds,
    });
    return outcome?.webhook_disabled ?? false;
  } catch {
    platform.log({ level: "warn", event: "delivery_left_to_its_lease", delivery_id: id });
    return false;
  }
}
