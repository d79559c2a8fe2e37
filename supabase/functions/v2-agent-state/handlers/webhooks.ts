/** Webhooks of the person who has signed in, and the job that delivers everybody's. Spec 4.8. */

import { z } from "zod";
import type { AppContext } from "../../_shared/context.ts";
import { encodeBase64 } from "../../_shared/domain/bytes.ts";
import { ApiError } from "../../_shared/errors.ts";
import { limitTries } from "../../_shared/middleware/limit_tries.ts";
import { parse, parseBody } from "../../_shared/middleware/parse.ts";
import { sessionArguments } from "../../_shared/middleware/require_session.ts";
import { id, text } from "../../_shared/middleware/shapes.ts";
import { URL_LENGTH_MAX, WEBHOOK_DISPATCH_MAX } from "../domain/limits.ts";
import { RATE_LIMITS } from "../domain/rate_limits.ts";
import { WEBHOOK_EVENTS } from "../domain/webhook_events.ts";
import { deliverWebhooks, deliverWebhooksSoon } from "../../_shared/flows/deliver_webhooks.ts";

const SECRET_BYTES = 32;

const ALL = z.literal("*");
const events = z.array(z.union([ALL, z.enum(WEBHOOK_EVENTS)])).min(1).max(WEBHOOK_EVENTS.length + 1);
/** POST /webhooks: its body; the others: their path. */
export const NEW_WEBHOOK = z.object({
  url: text(URL_LENGTH_MAX),
  events: z.union([ALL.transform((all) => [all]), events]).transform((names) => [...new Set(names)]),
});
export const WEBHOOK = z.object({ id: id("webhook_not_found") });

/** A webhook as `app.show_webhook` returns it. */
interface ShownWebhook {
  id: string;
  url: string;
  events: string[];
  state: string;
  created_at: string;
}

/**
 * POST /webhooks: 201 with the new webhook; `secret` is in this answer and nowhere else. Errors: `invalid_field:url`
 * with a `reason`, `webhook_limit_reached`.
 */
export async function createWebhook(c: AppContext): Promise<Response> {
  const body = await parseBody(c, NEW_WEBHOOK);
  const reason = await c.var.platform.hooks.findFault(body.url);
  if (reason !== undefined) throw new ApiError("invalid_field:url", { reason });
  const secret = newSecret();
  const webhook = await c.var.platform.db.call<ShownWebhook>("create_webhook", {
    ...sessionArguments(c),
    p_url: body.url,
    p_events: body.events,
    p_secret: secret,
  });
  const { id, url, events, state, created_at } = webhook;
  return c.json({ id, url, events, secret: spell(secret), state, created_at }, 201);
}

/** GET /webhooks: 200, an array of all webhooks, newest first, without their secrets. */
export async function listWebhooks(c: AppContext): Promise<Response> {
  return c.json(await c.var.platform.db.call<unknown[]>("list_webhooks", sessionArguments(c)));
}

/** DELETE /webhooks/:id: 200 `{id, message}`; what waits is not sent any more. Errors: `webhook_not_found`. */
export async function deleteWebhook(c: AppContext): Promise<Response> {
  const { id } = await parse(c, WEBHOOK, c.req.param());
  const args = { ...sessionArguments(c), p_webhook_id: id };
  return c.json(await c.var.platform.db.call<Record<string, unknown>>("delete_webhook", args));
}

/**
 * POST /webhooks/:id/test: 202 `{delivery_id}`; one `webhook.test` is on its way. Errors: `webhook_not_found`,
 * `webhook_disabled`, `rate_limited`.
 */
export async function testWebhook(c: AppContext): Promise<Response> {
  const { id } = await parse(c, WEBHOOK, c.req.param());
  await limitTries(c, RATE_LIMITS.webhook_test);
  const queued = await c.var.platform.db.call<Record<string, unknown>>("test_webhook", {
    ...sessionArguments(c),
    p_webhook_id: id,
    p_delivery_id: crypto.randomUUID(),
  });
  deliverWebhooksSoon(c.var.platform, c.var.settings);
  return c.json(queued, 202);
}

/** GET /webhooks/:id/deliveries: 200 with the newest hundred, newest first. Errors: `webhook_not_found`. */
export async function listDeliveries(c: AppContext): Promise<Response> {
  const { id } = await parse(c, WEBHOOK, c.req.param());
  const args = { ...sessionArguments(c), p_webhook_id: id };
  return c.json(await c.var.platform.db.call<Record<string, unknown>>("list_deliveries", args));
}

/**
 * POST /webhooks/:id/rotate-secret: 200 `{id, secret, previous_expires_at}`; both secrets sign until then. Errors:
 * `webhook_not_found`.
 */
export async function rotateWebhookSecret(c: AppContext): Promise<Response> {
  const { id } = await parse(c, WEBHOOK, c.req.param());
  const secret = newSecret();
  const { previous_expires_at } = await c.var.platform.db.call<{ previous_expires_at: string }>(
    "rotate_webhook_secret",
    { ...sessionArguments(c), p_webhook_id: id, p_secret: secret },
  );
  return c.json({ id, secret: spell(secret), previous_expires_at });
}

/** POST /webhooks/dispatch: 200 `{delivered, failed}` of one bounded run. */
export async function dispatchWebhooks(c: AppContext): Promise<Response> {
  return c.json(await deliverWebhooks(c.var.platform, c.var.settings, WEBHOOK_DISPATCH_MAX));
}

function newSecret(): Uint8Array {
  return crypto.getRandomValues(new Uint8Array(SECRET_BYTES));
}

/** As Standard Webhooks spells a secret. */
function spell(secret: Uint8Array): string {
  return `whsec_${encodeBase64(secret)}`;
}
