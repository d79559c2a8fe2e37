/** Delivers the mails of the outbox: claim → make a token where one is carried → send → say what became of it. */

import { sha256 } from "../domain/bytes.ts";
import { MailError } from "../domain/mail_error.ts";
import { ApiError } from "../errors.ts";
import type { Mail, Platform } from "../platform/mod.ts";
import { carriesToken, invitationToken, type MailFacts, renderMail, tokenLink } from "../domain/mail.ts";
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
}

/** What one run did; mails that had become pointless count as neither. */
export interface DeliveryReport {
  sent: number;
  failed: number;
}

interface ClaimedMail {
  id: string;
  kind: string;
  recipient: string;
  subject_id: string | null;
  facts: MailFacts;
  attempt: number;
}

/** Platforms whose mail is being delivered by {@link deliverMailSoon}; whether somebody has asked again since. */

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
    const mail = await prepare(platform, settings, claimed);
    if (mail === undefined) {
      outcome = "dropped";
      error = new MailError("no_longer_open", true);
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

/** Writes the mail. Returns undefined when the invitation that it is about is no longer open. */
async function prepare(
  platform: Platform,
  settings: DeliverySettings,
  { id, kind, recipient, subject_id, facts, attempt }: ClaimedMail,
): Promise<Mail | undefined> {
  if (!carriesToken(kind)) return { to: recipient, ...render(kind, facts), idempotencyKey: id };

  // Made anew for each attempt and kept nowhere: only its hash is stored, and replaces that of the attempt before.
  const token = invitationToken(crypto.getRandomValues(new Uint8Array(32)));
  const invitation = await platform.db.call<{ expires_at: string | null } | null>("mint_invitation_token", {
    p_invitation_id: subject_id,
    p_token_hash: sha256(token),
  });
  if (invitation === null) return undefined;
  const link = settings.appUrl === undefined ? undefined : tokenLink(kind, settings.appUrl, token);
  const message = render(kind, { ...facts, token, link, expires_at: invitation.expires_at });
  // Another text needs another key: the provider would take it for the mail that it had before.
  return { to: recipient, ...message, idempotencyKey: `${id}-${attempt}` };
}

/** A kind without a template may be one that newer code knows, so the mail waits. */
function render(kind: string, facts: MailFacts) {
  const message = renderMail(kind, facts);
  if (message === undefined) throw new MailError("mail_without_template");
  return message;
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
