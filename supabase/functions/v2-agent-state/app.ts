/** Every URL of the service, on one screen. */

import type { Hono } from "hono";
import type { AppEnv } from "../_shared/context.ts";
import type { Settings } from "../_shared/env.ts";
import { health } from "../_shared/handlers/health.ts";
import { limitBody } from "../_shared/middleware/parse.ts";
import { requireApiKey } from "../_shared/middleware/require_api_key.ts";
import { requireCronSecret } from "../_shared/middleware/require_cron_secret.ts";
import { acceptSession, requireSession } from "../_shared/middleware/require_session.ts";
import { createFrame } from "../_shared/middleware/stack.ts";
import type { Platform } from "../_shared/platform/mod.ts";
import {
  BILLING_EVENT_BYTES_MAX,
  BODY_BYTES_MAX,
  REPLICATE_BODY_BYTES_MAX,
  ROTATE_BODY_BYTES_MAX,
  SNAPSHOT_BODY_BYTES_MAX,
} from "./domain/limits.ts";
import { routePath } from "./domain/route_path.ts";
import { createReadCounter } from "./flows/count_reads.ts";
import { deliverWebhooksSoon } from "../_shared/flows/deliver_webhooks.ts";
import {
  readKdfSalt,
  readSettings,
  readSubscription,
  readUsage,
  reportTelemetry,
  updateSettings,
} from "./handlers/account.ts";
import { createCheckout, openCustomerPortal, updateSeats } from "./handlers/billing.ts";
import { receiveBillingEvent } from "./handlers/billing_webhook.ts";
import { exportTeamAudit, listAudit, verifyTeamAudit } from "./handlers/team_audit.ts";
import {
  acceptInvitation,
  createSubkey,
  inviteGuardian,
  inviteMember,
  revokeSubkey,
} from "./handlers/team_members.ts";
import { listMemories, listSyncLog, writeMemory } from "./handlers/team_memories.ts";
import { createTeam, grantTeamKey, listMembers, listTeams, readGrant, rotateTeam } from "./handlers/teams.ts";
import { createApiKey, listApiKeys, revokeApiKey } from "./handlers/api_keys.ts";
import { envelopes, metadata } from "./handlers/layer_a.ts";
import { readOpenApi } from "./handlers/openapi.ts";
import { head, replay, replicate } from "./handlers/replication.ts";
import { createSnapshot, latestSnapshot, lineage, snapshotAtSequence } from "./handlers/snapshots.ts";
import {
  createWebhook,
  deleteWebhook,
  dispatchWebhooks,
  listDeliveries,
  listWebhooks,
  rotateWebhookSecret,
  testWebhook,
} from "./handlers/webhooks.ts";
import { deliverEvents } from "../_shared/middleware/deliver_events.ts";

/** Where something happens that webhooks are told of. */
const EVENTFUL = ["/snapshot", "/replicate", "/api-keys/*", "/billing/*", "/teams/*", "/invitations/*"];

/** Builds the service on a platform. Paths are those of the spec, without the prefixes of its section 4. */
export function createApp(platform: Platform, settings: Settings): Hono<AppEnv> {
  const app = createFrame(platform, settings, (request) => routePath(request.url));
  const countRead = createReadCounter(platform);
  app.use(async function provideReadCounter(c, next) {
    c.set("countRead", (recalls) => countRead(c.get("credential"), c.get("device"), recalls));
    await next();
  });
  const telling = deliverEvents(() => deliverWebhooksSoon(platform, settings));
  for (const path of EVENTFUL) app.use(path, telling);

  app.get("/health", health);
  app.get("/openapi.json", readOpenApi);

  // API key: snapshots
  app.post(
    "/snapshot",
    requireApiKey,
    limitBody(SNAPSHOT_BODY_BYTES_MAX, "ciphertext_too_large"),
    createSnapshot,
  );
  app.get("/snapshot/:agent_id/latest", requireApiKey, latestSnapshot);
  app.get("/snapshot/:agent_id/lineage", requireApiKey, lineage);
  app.get("/snapshot/:agent_id/:sequence", requireApiKey, snapshotAtSequence);

  // API key: replication log
  app.post("/replicate", requireApiKey, limitBody(REPLICATE_BODY_BYTES_MAX), replicate);
  app.get("/head", requireApiKey, head);
  app.get("/replay", requireApiKey, replay);

  // API key: Layer A
  app.get("/metadata", requireApiKey, metadata);
  app.get("/envelopes", requireApiKey, envelopes);

  // Session: account
  app.post("/api-keys", requireSession, limitBody(BODY_BYTES_MAX), createApiKey);
  app.get("/api-keys", requireSession, listApiKeys);
  app.delete("/api-keys/:id", requireSession, revokeApiKey);
  app.get("/settings", requireSession, readSettings);
  app.put("/settings", requireSession, limitBody(BODY_BYTES_MAX), updateSettings);
  app.post("/telemetry", requireSession, limitBody(BODY_BYTES_MAX), reportTelemetry);
  app.get("/account/kdf-salt", requireSession, readKdfSalt);
  app.get("/kdf-salt", requireSession, readKdfSalt);

  // Session: billing; of events their signature says who sent them
  app.get("/billing/subscription", requireSession, readSubscription);
  app.get("/billing/usage", requireSession, readUsage);
  app.post("/billing/create-checkout", requireSession, limitBody(BODY_BYTES_MAX), createCheckout);
  app.post("/billing/customer-portal", requireSession, limitBody(BODY_BYTES_MAX), openCustomerPortal);
  app.post("/billing/update-seats", requireSession, limitBody(BODY_BYTES_MAX), updateSeats);
  app.post("/billing/webhook", limitBody(BILLING_EVENT_BYTES_MAX), receiveBillingEvent);

  // Session: teams
  app.post("/teams", requireSession, limitBody(BODY_BYTES_MAX), createTeam);
  app.get("/teams", requireSession, listTeams);
  app.post("/teams/:id/grants", requireSession, limitBody(BODY_BYTES_MAX), grantTeamKey);
  app.get("/teams/:id/grant", requireSession, readGrant);
  app.post("/teams/:id/rotate", requireSession, limitBody(ROTATE_BODY_BYTES_MAX), rotateTeam);
  app.post(
    "/teams/:id/memories",
    requireSession,
    limitBody(SNAPSHOT_BODY_BYTES_MAX, "chunk_too_large"),
    writeMemory,
  );
  app.get("/teams/:id/memories", requireSession, listMemories);
  app.get("/teams/:id/sync-log", requireSession, listSyncLog);
  app.post("/teams/:id/subkeys", requireSession, limitBody(BODY_BYTES_MAX), createSubkey);
  app.delete("/teams/:id/subkeys/:key_id", requireSession, revokeSubkey);
  app.get("/teams/:id/members", requireSession, listMembers);
  app.post("/teams/:id/invitations", requireSession, limitBody(BODY_BYTES_MAX), inviteMember);
  app.post("/teams/:id/guardians/invite", requireSession, limitBody(BODY_BYTES_MAX), inviteGuardian);
  app.get("/teams/:id/audit", requireSession, listAudit);
  app.get("/teams/:id/audit/verify", requireSession, verifyTeamAudit);
  app.get("/teams/:id/audit/export", requireSession, exportTeamAudit);
  app.post("/invitations/accept", acceptSession, limitBody(BODY_BYTES_MAX), acceptInvitation);

  // Session: webhooks
  app.post("/webhooks", requireSession, limitBody(BODY_BYTES_MAX), createWebhook);
  app.get("/webhooks", requireSession, listWebhooks);
  app.delete("/webhooks/:id", requireSession, deleteWebhook);
  app.post("/webhooks/:id/test", requireSession, testWebhook);
  app.get("/webhooks/:id/deliveries", requireSession, listDeliveries);
  app.post("/webhooks/:id/rotate-secret", requireSession, rotateWebhookSecret);

  // Cron secret: jobs
  app.post("/webhooks/dispatch", requireCronSecret, dispatchWebhooks);

  return app;
}
