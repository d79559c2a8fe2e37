/** Every URL of the vault interface, on one screen. Spec 4.9 and 9; docs/vault.md. */

import type { Hono } from "hono";
import type { AppEnv } from "../_shared/context.ts";
import { rawPath, stripPrefixes } from "../_shared/domain/paths.ts";
import type { Settings } from "../_shared/env.ts";
import { deliverMailSoon } from "../_shared/flows/deliver_mail.ts";
import { deliverWebhooksSoon } from "../_shared/flows/deliver_webhooks.ts";
import { health } from "../_shared/handlers/health.ts";
import { limitBody } from "../_shared/middleware/parse.ts";
import { requireCronSecret } from "../_shared/middleware/require_cron_secret.ts";
import { createFrame } from "../_shared/middleware/stack.ts";
import type { Platform } from "../_shared/platform/mod.ts";
import { ASSET_BODY_BYTES_MAX, BODY_BYTES_MAX, REARM_BODY_BYTES_MAX } from "./domain/limits.ts";
import { PREFIXES } from "./domain/route_path.ts";
import { addAsset, readAsset, removeAsset, wrapAsset } from "./handlers/assets.ts";
import { exportVaultAudit, listVaultAudit, verifyVaultAudit } from "./handlers/audit.ts";
import {
  acceptVaultInvitation,
  declineVaultInvitation,
  openClaim,
  pickUpAsset,
  pickUpVault,
  readVaultInvitation,
  voteClaim,
  withdrawClaim,
} from "./handlers/guests.ts";
import {
  cancelChange,
  checkIn,
  configureRelease,
  dispatchReleases,
  rearmVault,
  releaseVault,
  vetoRelease,
} from "./handlers/release.ts";
import { readVaultOpenApi } from "./handlers/openapi.ts";
import { endpointRemoved } from "./handlers/removed.ts";
import {
  addPerson,
  confirmPerson,
  createVault,
  listVaults,
  readVault,
  removePerson,
  resendInvitation,
} from "./handlers/vaults.ts";
import { deliverNews } from "./middleware/deliver_news.ts";
import { requireLivingOwner, requireOwner } from "./middleware/require_owner.ts";

/** Builds the vault interface on a platform. */
export function createApp(platform: Platform, settings: Settings): Hono<AppEnv> {
  const app = createFrame(platform, settings, (request) => stripPrefixes(rawPath(request.url), PREFIXES));
  const small = limitBody(BODY_BYTES_MAX);
  const telling = deliverNews(() => {
    deliverMailSoon(platform, settings);
    deliverWebhooksSoon(platform, settings);
  });
  for (const path of ["/api/*", "/release/dispatch"]) app.use(path, telling);

  app.get("/health", health);
  app.get("/openapi.json", readVaultOpenApi);

  // API key or session: the owner
  app.get("/api/vault", requireOwner, listVaults);
  app.post("/api/vault", requireOwner, small, createVault);
  app.get("/api/vault/:id", requireOwner, readVault);
  for (const role of ["heir", "guardian"]) {
    app.post(`/api/vault/:id/${role}`, requireOwner, small, addPerson);
    app.delete(`/api/vault/:id/${role}/:person_id`, requireOwner, removePerson);
    app.post(`/api/vault/:id/${role}/:person_id/confirm`, requireOwner, small, confirmPerson);
    app.post(`/api/vault/:id/${role}/:person_id/resend`, requireOwner, resendInvitation);
  }
  app.post(
    "/api/vault/:id/asset",
    requireOwner,
    limitBody(ASSET_BODY_BYTES_MAX, "ciphertext_too_large"),
    addAsset,
  );
  app.get("/api/vault/:id/asset/:asset_id", requireOwner, readAsset);
  app.delete("/api/vault/:id/asset/:asset_id", requireOwner, removeAsset);
  app.post("/api/vault/:id/asset/:asset_id/keys", requireOwner, limitBody(ASSET_BODY_BYTES_MAX), wrapAsset);
  app.post("/api/vault/:id/release/config", requireOwner, small, configureRelease);
  app.delete("/api/vault/:id/changes/:change_id", requireOwner, cancelChange);
  app.get("/api/vault/:id/audit", requireOwner, listVaultAudit);
  app.get("/api/vault/:id/audit/verify", requireOwner, verifyVaultAudit);
  app.get("/api/vault/:id/audit/export", requireOwner, exportVaultAudit);

  // Session or check-in key: the living owner
  app.post("/api/vault/:id/check-in", requireLivingOwner, checkIn);
  app.post("/api/vault/:id/release", requireLivingOwner, releaseVault);
  app.post("/api/vault/:id/release/veto", requireLivingOwner, vetoRelease);
  app.post("/api/vault/:id/release/rearm", requireLivingOwner, limitBody(REARM_BODY_BYTES_MAX), rearmVault);

  // Token from a mail: heirs and guardians
  app.post("/api/vault/invitation", small, readVaultInvitation);
  app.post("/api/vault/invitation/accept", small, acceptVaultInvitation);
  app.post("/api/vault/invitation/decline", small, declineVaultInvitation);
  app.post("/api/vault/:id/claim", small, openClaim);
  app.post("/api/vault/:id/claim/:claim_id/vote", small, voteClaim);
  app.post("/api/vault/:id/claim/:claim_id/withdraw", small, withdrawClaim);
  app.post("/api/vault/:id/pick-up", small, pickUpVault);
  app.post("/api/vault/:id/pick-up/:asset_id", small, pickUpAsset);

  // Cron secret: jobs
  app.post("/release/dispatch", requireCronSecret, dispatchReleases);

  // Gone with version 1
  for (const part of ["lock", "unlock", "release/contest"]) {
    app.all(`/api/vault/:id/${part}`, endpointRemoved);
  }
  for (const part of ["protection", "succession", "verification", "certificate"]) {
    app.all(`/api/vault/:id/${part}/*`, endpointRemoved);
  }
  app.all("/api/verify/:hash", endpointRemoved);

  return app;
}
