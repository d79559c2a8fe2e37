/** Signed deliveries of webhooks: the headers of Standard Webhooks, over the guarded fetch. */

import { Webhook } from "standardwebhooks";
import { type GuardOptions, openGuardedFetch } from "./guarded_fetch.ts";
import type { WebhookSender } from "./mod.ts";

const USER_AGENT = "agent-state-webhooks/1";
const RETRY_AFTER_SECONDS_MAX = 86_400;

/** Opens the sender. `now` is the clock that timestamps are taken from. */
export function openWebhookSender(options: GuardOptions, now: () => Date = () => new Date()): WebhookSender {
  const guarded = openGuardedFetch(options);
  return {
    findFault: guarded.findFault,
    async send({ id, url, payload, secrets }) {
      const at = now();
      const { status, fault, retryAfter } = await guarded.post(url, {
        "content-type": "application/json",
        "user-agent": USER_AGENT,
        "webhook-id": id,
        "webhook-timestamp": String(Math.floor(at.getTime() / 1000)),
        "webhook-signature": secrets.map((secret) => new Webhook(secret).sign(id, at, payload)).join(" "),
      }, payload);
      const delivered = status !== null && status >= 200 && status < 300;
      return {
        status,
        error: delivered ? null : fault ?? `http_${status}`,
        retryAfterSeconds: delivered ? null : readRetryAfter(retryAfter, at),
      };
    },
  };
}

/** `Retry-After` in whole seconds, from either of its forms; null without one that can be read. RFC 9110 10.2.3. */
export function readRetryAfter(header: string | null, now: Date): number | null {
  if (header === null) return null;
  const text = header.trim();
  const seconds = /^[0-9]+$/.test(text) ? Number(text) : Math.ceil((Date.parse(text) - now.getTime()) / 1000);
  if (Number.isNaN(seconds)) return null;
  return Math.min(Math.max(seconds, 0), RETRY_AFTER_SECONDS_MAX);
}
