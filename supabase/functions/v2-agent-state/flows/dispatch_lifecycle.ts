/** Owes people the mails that are due, and sends what waits in the outbox. Spec 4.8. */

import type { Platform } from "../../_shared/platform/mod.ts";
import { deliverMail, type DeliverySettings } from "../../_shared/flows/deliver_mail.ts";

/** Mails owed in one transaction. */
const BATCH = 1_000;
/** Transactions of one run; whatever is left is due in the next. */
const BATCHES_MAX = 5;
/** Mails sent in one run, at most; time ends most runs before. */
const MAILS_MAX = 500;

/** What one run did. */
export interface DispatchReport {
  /** Lifecycle mails put into the outbox. */
  queued: number;
  /** Mails of the outbox, of any kind. */
  sent: number;
  failed: number;
}

/**
 * Any number of runs may go on at once, and each may end anywhere: who was owed a mail once is never owed it again.
 * Errors: those of the database.
 */
export async function dispatchLifecycle(
  platform: Platform,
  settings: DeliverySettings,
): Promise<DispatchReport> {
  let queued = 0;
  for (let batches = 0; batches < BATCHES_MAX; batches++) {
    const { settled, owed } = await platform.db.call<{ settled: number; owed: number }>(
      "owe_lifecycle_mails",
      { p_limit: BATCH },
    );
    queued += owed;
    if (settled < BATCH) break;
  }
  return { queued, ...await deliverMail(platform, settings, MAILS_MAX) };
}
