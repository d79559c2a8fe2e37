/** Delivers the mails of the outbox: claim → make a token where one is carried → send → say what became of it. */

import { MailError } from "../domain/mail_error.ts";
import { ApiError } from "../errors.ts";
import type { Platform } from "../platform/mod.ts";
import type { MailFacts } from "../domain/mail.ts";
import { prepareMail } from "./prepare_mail.ts";
import { runSoon } from "./run_soon.ts";

/** Far longer than one mail takes, so that nobody else sends it meanwhile. */
const LEASE_SECONDS = 120;
/** After this time a run claims nothing more: a provider that is slow must not keep a worker alive. */
const RUN_MS_MAX = 20_000;
/** Mails that are sent right after a response; the rest goes with the next run. */
const SOON_LIMIT = 20;

/** What a mail needs to know of the configuration. */
export interface DeliverySettings {
  appUrl: string | undefined;
  apiUrl?: string | undefined;
  linkSecrets?: readonly string[];
}

/** What one run did; mails that had become pointless count as neither. */
export interface DeliveryReport {
  sent: number;
  failed: number;
}

/** A mail of the outbox, taken by this worker. */
export interface ClaimedMail {
  id: string;
  kind: string;
  recipient: string;
  subject_id: string | null;
  facts: MailFacts;
  attempt: number;
}

/**
 * Delivers at most `limit` mails that are due, one after another: providers limit requests a second, and a worker
 * that dies holds one mail only. Any number of runs may go on at once. A mail that fails waits for its next attempt
 * and stops no other. Errors: those of the database when nothing can be claimed.
 */
export async function deliverMail(
  platform: Platform,
  settings: DeliverySettings,
  limit: number,
): Promise<DeliveryReport> {
  const report = { sent: 0, failed: 0 };
  const startedAt = performance.now();
  for (let claimed = 0; claimed < limit && performance.now() - startedAt < RUN_MS_MAX; claimed++) {
    const [mail] = await platform.db.rows<ClaimedMail>("claim_mail", {
      p_limit: 1,
      p_lease_seconds: LEASE_SECONDS,
    }, []);
    if (mail === undefined) break;
    const outcome = await deliverOne(platform, settings, mail);
    if (outcome !== "dropped") report[outcome]++;
  }
  return report;
}

/** Delivers what is due without making the caller wait. */
export const deliverMailSoon = runSoon<DeliverySettings>(
  (platform, settings) => deliverMail(platform, settings, SOON_LIMIT),
  "mail_not_claimed",
);

async function deliverOne(
  platform: Platform,
  settings: DeliverySettings,
  claimed: ClaimedMail,
): Promise<"sent" | "failed" | "dropped"> {
  let outcome: "sent" | "failed" | "dropped" = "sent";
  let error: MailError | undefined;
  try {
    const mail = await prepareMail(platform, settings, claimed);
    if ("pointless" in mail) {
      outcome = "dropped";
      error = new MailError(mail.pointless, true);
    } else {
      await platform.mailer.send(mail);
    }
  } catch (thrown) {
    outcome = "failed";
    error = codeOf(thrown);
  }
  const { id, kind, attempt } = claimed;
  if (outcome === "failed") {
    const { code, permanent } = error!;
    platform.log({
      level: "warn",
      event: "mail_not_sent",
      mail_id: id,
      kind,
      attempt,
      error: code,
      permanent,
    });
  }
  await finish(platform, claimed, error);
  return outcome;
}

/** When even this cannot be said now, the lease runs out and the mail is tried again: twice rather than never. */
async function finish(platform: Platform, mail: ClaimedMail, error: MailError | undefined): Promise<void> {
  try {
    await platform.db.call("finish_mail", {
      p_mail_id: mail.id,
      p_attempt: mail.attempt,
      p_error: error?.code ?? null,
      p_permanent: error?.permanent ?? false,
    });
  } catch {
    platform.log({ level: "warn", event: "mail_left_to_its_lease", mail_id: mail.id });
  }
}

/** The code of whatever was thrown; a message that is not ours might quote the mail. */
function codeOf(thrown: unknown): MailError {
  if (thrown instanceof MailError) return thrown;
  return new MailError(thrown instanceof ApiError ? thrown.code.replace(/[^a-z0-9_]/g, "_") : "mail_failed");
}
