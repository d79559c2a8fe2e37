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
import * as limits from "./domain/limits.ts";
import { routePath } from "./domain/route_path.ts";
import { createReadCounter } from "./flows/count_reads.ts";
import { deliverWebhooksSoon } from "../_shared/flows/deliver_webhooks.ts";
import * as account from "./handlers/account.ts";
import { createCheckout, openCustomerPortal, updateSeats } from "./handlers/billing.ts";
import { receiveBillingEvent } from "./handlers/billing_webhook.ts";
import { exportTeamAudit, listAudit, verifyTeamAudit } from "./handlers/team_audit.ts";
import * as members from "./handlers/team_members.ts";
import { listMemories, listSyncLog, writeMemory } from "./handlers/team_memories.ts";
import { createTeam, grantTeamKey, listMembers, listTeams, readGrant, rotateTeam } from "./handlers/teams.ts";
import { createApiKey, listApiKeys, revokeApiKey } from "./handlers/api_keys.ts";
import { envelopes, metadata } from "./handlers/layer_a.ts";
import { readOpenApi } from "./handlers/openapi.ts";
import { head, replay, replicate } from "./handlers/replication.ts";
import * as scim from "./handlers/scim_discovery.ts";
import * as groups from "./handlers/scim_groups.ts";
import { searchScim } from "./handlers/scim_search.ts";
import * as users from "./handlers/scim_users.ts";
import * as sso from "./handlers/sso.ts";
import { createSnapshot, latestSnapshot, lineage, snapshotAtSequence } from "./handlers/snapshots.ts";
import * as webhooks from "./handlers/webhooks.ts";
import { deliverEvents } from "../_shared/middleware/deliver_events.ts";
import { requireScimToken, speakScim } from "./middleware/speak_scim.ts";

/** Where something happens that webhooks are told of: all the time, and when people or directories change something. */
const BUSY = ["/snapshot", "/replicate"];
const BY_HAND = ["/api-keys/*", "/billing/*", "/teams/*", "/invitations/*", "/scim/*"];

/** Builds the service on a platform. Paths are those of the spec, without the prefixes of its section 4. */
export function createApp(platform: Platform, settings: Settings): Hono<AppEnv> {
  const app = createFrame(platform, settings, (request) => routePath(request.url));
  const countRead = createReadCounter(platform);
  app.use(async function provideReadCounter(c, next) {
    c.set("countRead", (recalls) => countRead(c.get("credential"), c.get("device"), recalls));
    await next();
  });
  const telling = deliverEvents(() => deliverWebhooksSoon(platform, settings));
  for (const path of [...BUSY, ...BY_HAND]) app.use(path, telling);

  app.get("/health", health);
  app.get("/openapi.json", readOpenApi);
  const small = limitBody(limits.BODY_BYTES_MAX);

  // API key: snapshots
  const snapshotBody = limitBody(limits.SNAPSHOT_BODY_BYTES_MAX, "ciphertext_too_large");
  app.post("/snapshot", requireApiKey, snapshotBody, createSnapshot);
  app.get("/snapshot/:agent_id/latest", requireApiKey, latestSnapshot);
  app.get("/snapshot/:agent_id/lineage", requireApiKey, lineage);
  app.get("/snapshot/:agent_id/:sequence", requireApiKey, snapshotAtSequence);

  // API key: replication log, Layer A
  app.post("/replicate", requireApiKey, limitBody(limits.REPLICATE_BODY_BYTES_MAX), replicate);
  app.get("/head", requireApiKey, head);
  app.get("/replay", requireApiKey, replay);
  app.get("/metadata", requireApiKey, metadata);
  app.get("/envelopes", requireApiKey, envelopes);

  // Session: account
  app.post("/api-keys", requireSession, small, createApiKey);
  app.get("/api-keys", requireSession, listApiKeys);
  app.delete("/api-keys/:id", requireSession, revokeApiKey);
  app.get("/settings", requireSession, account.readSettings);
  app.put("/settings", requireSession, small, account.updateSettings);
  app.post("/telemetry", requireSession, small, account.reportTelemetry);
  app.get("/account/kdf-salt", requireSession, account.readKdfSalt);
  app.get("/kdf-salt", requireSession, account.readKdfSalt);

  // Session: billing; of events their signature says who sent them
  app.get("/billing/subscription", requireSession, account.readSubscription);
  app.get("/billing/usage", requireSession, account.readUsage);
  app.post("/billing/create-checkout", requireSession, small, createCheckout);
  app.post("/billing/customer-portal", requireSession, small, openCustomerPortal);
  app.post("/billing/update-seats", requireSession, small, updateSeats);
  app.post("/billing/webhook", limitBody(limits.BILLING_EVENT_BYTES_MAX), receiveBillingEvent);

  // Session: teams
  app.post("/teams", requireSession, small, createTeam);
  app.get("/teams", requireSession, listTeams);
  app.post("/teams/:id/grants", requireSession, small, grantTeamKey);
  app.get("/teams/:id/grant", requireSession, readGrant);
  app.post("/teams/:id/rotate", requireSession, limitBody(limits.ROTATE_BODY_BYTES_MAX), rotateTeam);
  const memoryBody = limitBody(limits.SNAPSHOT_BODY_BYTES_MAX, "chunk_too_large");
  app.post("/teams/:id/memories", requireSession, memoryBody, writeMemory);
  app.get("/teams/:id/memories", requireSession, listMemories);
  app.get("/teams/:id/sync-log", requireSession, listSyncLog);
  app.post("/teams/:id/subkeys", requireSession, small, members.createSubkey);
  app.delete("/teams/:id/subkeys/:key_id", requireSession, members.revokeSubkey);
  app.get("/teams/:id/members", requireSession, listMembers);
  app.post("/teams/:id/invitations", requireSession, small, members.inviteMember);
  app.post("/teams/:id/guardians/invite", requireSession, small, members.inviteGuardian);
  app.get("/teams/:id/audit", requireSession, listAudit);
  app.get("/teams/:id/audit/verify", requireSession, verifyTeamAudit);
  app.get("/teams/:id/audit/export", requireSession, exportTeamAudit);
  app.post("/invitations/accept", acceptSession, small, members.acceptInvitation);

  // Session: webhooks, single sign-on
  app.post("/webhooks", requireSession, small, webhooks.createWebhook);
  app.get("/webhooks", requireSession, webhooks.listWebhooks);
  app.delete("/webhooks/:id", requireSession, webhooks.deleteWebhook);
  app.post("/webhooks/:id/test", requireSession, webhooks.testWebhook);
  app.get("/webhooks/:id/deliveries", requireSession, webhooks.listDeliveries);
  app.post("/webhooks/:id/rotate-secret", requireSession, webhooks.rotateWebhookSecret);
  app.get("/sso/:teamId/config", requireSession, sso.readSsoConfig);
  app.put("/sso/:teamId/config", requireSession, limitBody(limits.SSO_BODY_BYTES_MAX), sso.updateSsoConfig);
  app.post("/sso/:teamId/scim-tokens", requireSession, small, sso.createScimToken);
  app.get("/sso/:teamId/scim-tokens", requireSession, sso.listScimTokens);
  app.delete("/sso/:teamId/scim-tokens/:id", requireSession, sso.revokeScimToken);

  // SCIM token: the directory
  const scimBody = limitBody(limits.SCIM_BODY_BYTES_MAX);
  app.use("/scim/v2/*", speakScim);
  app.get("/scim/v2/ServiceProviderConfig", requireScimToken, scim.readServiceConfig);
  app.get("/scim/v2/ResourceTypes", requireScimToken, scim.listResourceTypes);
  app.get("/scim/v2/ResourceTypes/:id", requireScimToken, scim.readResourceType);
  app.get("/scim/v2/Schemas", requireScimToken, scim.listSchemas);
  app.get("/scim/v2/Schemas/:id", requireScimToken, scim.readSchema);
  app.all("/scim/v2/:x{ServiceProviderConfig|ResourceTypes|Schemas}", requireScimToken, scim.refuseMethod);
  app.post("/scim/v2/.search", requireScimToken, scimBody, searchScim);
  app.post("/scim/v2/Users/.search", requireScimToken, scimBody, searchScim);
  app.post("/scim/v2/Groups/.search", requireScimToken, scimBody, searchScim);
  app.get("/scim/v2/Users", requireScimToken, users.findScimUsers);
  app.post("/scim/v2/Users", requireScimToken, scimBody, users.createScimUser);
  app.get("/scim/v2/Users/:id", requireScimToken, users.readScimUser);
  app.put("/scim/v2/Users/:id", requireScimToken, scimBody, users.replaceScimUser);
  app.patch("/scim/v2/Users/:id", requireScimToken, scimBody, users.patchScimUser);
  app.delete("/scim/v2/Users/:id", requireScimToken, users.deleteScimUser);
  app.get("/scim/v2/Groups", requireScimToken, groups.findScimGroups);
  app.post("/scim/v2/Groups", requireScimToken, scimBody, groups.createScimGroup);
  app.get("/scim/v2/Groups/:id", requireScimToken, groups.readScimGroup);
  app.put("/scim/v2/Groups/:id", requireScimToken, scimBody, groups.replaceScimGroup);
  app.patch("/scim/v2/Groups/:id", requireScimToken, scimBody, groups.patchScimGroup);
  app.delete("/scim/v2/Groups/:id", requireScimToken, groups.deleteScimGroup);
  // Cron secret: jobs
  app.post("/webhooks/dispatch", requireCronSecret, webhooks.dispatchWebhooks);

  return app;
}
