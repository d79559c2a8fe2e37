/** Mail through Resend's HTTP interface, with `fetch`: one request a mail. */

import { MailError } from "../domain/mail_error.ts";
import type { MailSettings } from "../env.ts";
import type { Mail, Mailer } from "./mod.ts";

const TIMEOUT_MS = 10_000;

/**
 * Refusals that are not about the mail, so that it may be taken later: the key or the sender's domain is not in
 * order (401, 403), the address of the provider is wrong (404, 405), or it is busy (408, 409, 425, 429).
 */
const MAY_PASS = [401, 403, 404, 405, 408, 409, 425, 429];

/**
 * Opens the mailer. Without a key it takes nothing: `mail_not_configured`, not permanent, so that mails wait.
 *
 * Errors of `send`, none with a word of the mail in it: `mail_http_<status>`, permanent when the mail itself was
 * refused; `mail_timeout` after 10 seconds; `mail_unreachable`; `mail_bad_answer` when something else than Resend
 * said yes.
 */
export function openResendMailer(settings: MailSettings, timeoutMs = TIMEOUT_MS): Mailer {
  const { apiKey, apiUrl, from } = settings;
  if (apiKey === undefined) return { send: () => Promise.reject(new MailError("mail_not_configured")) };

  async function post(mail: Mail): Promise<{ status: number; text: string }> {
    try {
      const response = await fetch(`${apiUrl}/emails`, {
        method: "POST",
        // The key is for this address alone.
        redirect: "manual",
        signal: AbortSignal.timeout(timeoutMs),
        headers: {
          "authorization": `Bearer ${apiKey}`,
          "content-type": "application/json",
          "idempotency-key": mail.idempotencyKey,
        },
        body: JSON.stringify({
          from,
          to: [mail.to],
          subject: mail.subject,
          text: mail.text,
          html: mail.html,
          ...(mail.headers === undefined ? {} : { headers: mail.headers }),
        }),
      });
      return { status: response.status, text: await response.text() };
    } catch (error) {
      // What was thrown is not passed on: its message is not ours to vouch for.
      const late = error instanceof DOMException && error.name === "TimeoutError";
      throw new MailError(late ? "mail_timeout" : "mail_unreachable");
    }
  }

  return {
    async send(mail) {
      const { status, text } = await post(mail);
      if (status < 200 || status >= 300) {
        const permanent = status >= 400 && status < 500 && !MAY_PASS.includes(status);
        throw new MailError(`mail_http_${status}`, permanent);
      }
      if (!namesMail(text)) throw new MailError("mail_bad_answer");
    },
  };
}

/** Resend answers `{"id": …}`; a portal or a proxy in its place answers 200 as well. */
function namesMail(text: string): boolean {
  try {
    const { id } = JSON.parse(text);
    return typeof id === "string" && id !== "";
  } catch {
    return false;
  }
}
