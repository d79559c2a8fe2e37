/** Webhooks and the job that delivers them. Spec 4.8. */

import { z } from "zod";
import type { Operations } from "../../_shared/reference/operation.ts";
import { count, time, url, uuid, words } from "../../_shared/reference/shapes.ts";
import { WEBHOOK_EVENTS } from "../domain/webhook_events.ts";
import { NEW_WEBHOOK, WEBHOOK } from "../handlers/webhooks.ts";
import { type Scene, SHOWN } from "./scene.ts";

const id = uuid(SHOWN.webhookId);
const EVENTS = z.array(z.enum(["*", ...WEBHOOK_EVENTS])).meta({ examples: [["*"]] });
const STATE = z.enum(["active", "disabled"]);
const SECRET = words("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").describe(
  "Shown in this answer and never again",
);

const NEW = z.object({
  id,
  url: url(SHOWN.webhookUrl),
  events: EVENTS,
  secret: SECRET,
  state: STATE,
  created_at: time,
}).meta({ id: "NewWebhook" });
const LISTED = z.object({
  id,
  url: url(SHOWN.webhookUrl),
  events: EVENTS,
  state: STATE,
  disabled_reason: words("gone").nullable(),
  failing_since: time.nullable(),
  created_at: time,
}).meta({ id: "Webhook" });
const DELIVERY = z.object({
  id: uuid("2f6e0a52-8f7a-4f5e-9a38-0a5c9d0d0a11"),
  event_type: z.enum(WEBHOOK_EVENTS),
  status: z.enum(["pending", "delivered", "exhausted", "canceled"]),
  attempts: count(1),
  next_attempt_at: time.nullable(),
  last_status: z.int().nullable().meta({ examples: [204] }),
  last_error: words("timeout").nullable(),
  created_at: time,
  delivered_at: time.nullable(),
}).meta({ id: "Delivery" });

const FIELDS = { id: "The webhook" };

export const WEBHOOK_OPERATIONS: Operations<Scene> = {
  "POST /webhooks": {
    tag: "Webhooks",
    summary: "Register a webhook",
    description:
      "Deliveries are signed as Standard Webhooks say. `docs/webhooks.md` shows what each event carries.",
    body: NEW_WEBHOOK,
    fields: {
      url: "https, on port 443 or 8443, of a public host",
      events: "Kinds to be told of, or `*` for all",
    },
    answers: { 201: { body: NEW } },
    errors: ["webhook_limit_reached"],
    example: ({ webhookUrl }) => ({
      body: { url: webhookUrl, events: ["snapshot.confirmed", "credits.low"] },
    }),
  },
  "GET /webhooks": {
    tag: "Webhooks",
    summary: "List webhooks, newest first, without their secrets",
    answers: { 200: { body: z.array(LISTED) } },
    example: () => ({}),
  },
  "DELETE /webhooks/:id": {
    tag: "Webhooks",
    summary: "Delete a webhook; what waits is not sent any more",
    path: WEBHOOK,
    fields: FIELDS,
    answers: { 200: { body: z.object({ id, message: z.literal("webhook_deleted") }) } },
    errors: ["webhook_not_found"],
    example: ({ webhookId }) => ({ path: { id: webhookId } }),
  },
  "POST /webhooks/:id/test": {
    tag: "Webhooks",
    summary: "Send a webhook one `webhook.test`",
    path: WEBHOOK,
    fields: FIELDS,
    answers: { 202: { body: z.object({ delivery_id: uuid("2f6e0a52-8f7a-4f5e-9a38-0a5c9d0d0a11") }) } },
    errors: ["webhook_not_found", "webhook_disabled"],
    example: ({ webhookId }) => ({ path: { id: webhookId } }),
  },
  "GET /webhooks/:id/deliveries": {
    tag: "Webhooks",
    summary: "The newest hundred deliveries of a webhook",
    path: WEBHOOK,
    fields: FIELDS,
    answers: { 200: { body: z.object({ webhook_id: id, deliveries: z.array(DELIVERY).max(100) }) } },
    errors: ["webhook_not_found"],
    example: ({ webhookId }) => ({ path: { id: webhookId } }),
  },
  "POST /webhooks/:id/rotate-secret": {
    tag: "Webhooks",
    summary: "Give a webhook a new secret",
    description: "Both secrets sign until the previous one expires.",
    path: WEBHOOK,
    fields: FIELDS,
    answers: { 200: { body: z.object({ id, secret: SECRET, previous_expires_at: time }) } },
    errors: ["webhook_not_found"],
    example: ({ webhookId }) => ({ path: { id: webhookId } }),
  },
  "POST /webhooks/dispatch": {
    tag: "Jobs",
    summary: "Deliver webhooks that are due, in one bounded run",
    answers: { 200: { body: z.object({ delivered: count(3), failed: count(0) }) } },
    example: () => ({}),
  },
};
