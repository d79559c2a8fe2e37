/** Writes the mails of the outbox: with the tokens that they carry, which are kept nowhere else. */

import { sha256 } from "../domain/bytes.ts";
import { MailError } from "../domain/mail_error.ts";
import { sign, signToken, type TokenPurpose } from "../domain/signed_token.ts";
import type { Mail, Platform } from "../platform/mod.ts";
import {
  addressHash,
  carriesToken,
  confirmationLink,
  invitationToken,
  type MailFacts,
  mayBeRefused,
  renderMail,
  tokenLink,
  unsubscribeLink,
} from "../domain/mail.ts";
import type { ClaimedMail, DeliverySettings } from "./deliver_mail.ts";

/** Why there is nothing to send any more, as a code. */
interface Pointless {
  pointless: string;
}

/** Facts that are made for this mail, and the key under which the provider knows it. */
interface Carried {
  facts: MailFacts;
  idempotencyKey: string;
}

/**
 * Returns the mail, or why it has become pointless: nobody wants it, or its invitation is no longer open. Throws
 * `MailError` when it has to wait: for newer code, or for a setting that it needs.
 */
export async function prepareMail(
  platform: Platform,
  settings: DeliverySettings,
  claimed: ClaimedMail,
): Promise<Mail | Pointless> {
  const { kind, recipient, facts } = claimed;
  const refusal = mayBeRefused(kind) ? await offerRefusal(platform, settings, recipient) : undefined;
  if (refusal === "refused") return { pointless: "unsubscribed" };
  const carried = await carry(platform, settings, claimed);
  if (carried === undefined) return { pointless: "no_longer_open" };
  const message = renderMail(kind, { ...facts, ...carried.facts, ...refusal?.facts });
  // A kind without a template may be one that newer code knows.
  if (message === undefined) throw new MailError("mail_without_template");
  const { idempotencyKey } = carried;
  return { to: recipient, ...message, idempotencyKey, ...(refusal && { headers: refusal.headers }) };
}

/** How the recipient gets no more of these: for people, and for mail programs (RFC 2369 and 8058). */
async function offerRefusal(platform: Platform, settings: DeliverySettings, recipient: string) {
  const hash = addressHash(recipient);
  const { wants } = await platform.db.call<{ wants: boolean }>("wants_mail", { p_address_hash: hash });
  if (!wants) return "refused";
  if (settings.apiUrl === undefined) throw new MailError("mail_without_api_url");
  const token = signToken("unsubscribe", hash, secretOf(settings));
  const { appUrl } = settings;
  return {
    facts: {
      unsubscribe_code: token,
      ...(appUrl === undefined ? {} : { unsubscribe_link: unsubscribeLink(appUrl, token) }),
    },
    headers: {
      "List-Unsubscribe": `<${settings.apiUrl}/marketing/unsubscribe?token=${token}>`,
      "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
    },
  };
}

/** Makes the token that a mail carries, if any. Returns undefined when its invitation is no longer open. */
async function carry(
  platform: Platform,
  settings: DeliverySettings,
  { id, kind, subject_id, attempt }: ClaimedMail,
): Promise<Carried | undefined> {
  if (!carriesToken(kind)) return { facts: {}, idempotencyKey: id };
  if (kind === "marketing_confirmation") {
    const token = signToken("confirm", new TextEncoder().encode(subject_id!), secretOf(settings));
    return { facts: linked(settings, token, confirmationLink), idempotencyKey: id };
  }
  // The mail that invites has a token of its own for each attempt, so each is another mail to the provider. What only
  // reminds must not come twice: its token follows from the mail, and so does the mail from the outbox.
  const reminds = kind === "invitation_reminder";
  const token = invitationToken(
    reminds ? signId("invitation reminder", id, settings) : crypto.getRandomValues(new Uint8Array(32)),
  );
  const invitation = await platform.db.call<{ expires_at: string | null } | null>("mint_invitation_token", {
    p_invitation_id: subject_id,
    p_token_hash: sha256(token),
  });
  if (invitation === null) return undefined;
  return {
    facts: {
      ...linked(settings, token, (appUrl) => tokenLink(kind, appUrl, token)),
      expires_at: invitation.expires_at,
    },
    idempotencyKey: reminds ? id : `${id}-${attempt}`,
  };
}

function linked(
  { appUrl }: DeliverySettings,
  token: string,
  link: (appUrl: string, token: string) => string,
): MailFacts {
  return { token, ...(appUrl === undefined ? {} : { link: link(appUrl, token) }) };
}

function signId(purpose: TokenPurpose, id: string, settings: DeliverySettings): Uint8Array {
  return sign(purpose, new TextEncoder().encode(id), secretOf(settings));
}

function secretOf({ linkSecrets }: DeliverySettings): string {
  const secret = linkSecrets?.[0];
  if (secret === undefined) throw new MailError("mail_without_secret");
  return secret;
}
