/** The machine of a vault, as its owner drives it. Spec 4.9; docs/vault.md. */

import { z } from "zod";
import type { AppContext } from "../../_shared/context.ts";
import { parse, parseBody } from "../../_shared/middleware/parse.ts";
import { id, wrappedKey } from "../../_shared/middleware/shapes.ts";
import {
  DISPATCH_MAX,
  GRACE_DAYS_MAX,
  HEIRS_MAX,
  INTERVAL_DAYS_MAX,
  KEY_EPOCH_MAX,
  QUORUM_MAX,
  QUORUM_MIN,
  WINDOW_HOURS_MAX,
  WINDOW_HOURS_MIN,
} from "../domain/limits.ts";
import { dispatchVaults } from "../flows/dispatch_vaults.ts";
import { vaultArguments } from "../middleware/vault_arguments.ts";

const window = z.int().min(WINDOW_HOURS_MIN).max(WINDOW_HOURS_MAX).optional();
/** What each trigger can be told; a name that it does not know is refused, not ignored. */
export const CONFIG = z.discriminatedUnion("trigger", [
  z.object({
    trigger: z.literal("dead_man_switch"),
    config: z.strictObject({
      enabled: z.boolean().default(true),
      check_in_interval_days: z.int().min(1).max(INTERVAL_DAYS_MAX).optional(),
      grace_days: z.int().min(1).max(GRACE_DAYS_MAX).optional(),
      veto_window_hours: window,
    }),
  }),
  z.object({
    trigger: z.literal("manual"),
    config: z.strictObject({ veto_window_hours: z.int().min(1).max(WINDOW_HOURS_MAX).optional() }),
  }),
  z.object({
    trigger: z.literal("guardian_claim"),
    config: z.strictObject({
      enabled: z.boolean().default(true),
      quorum: z.int().min(QUORUM_MIN).max(QUORUM_MAX).optional(),
      veto_window_hours: window,
    }),
  }),
]);
/** Everything that any of the triggers may be told. */
interface AnyConfig {
  enabled?: boolean;
  check_in_interval_days?: number;
  grace_days?: number;
  veto_window_hours?: number;
  quorum?: number;
}
export const REARMING = z.object({
  key_epoch: z.int().min(1).max(KEY_EPOCH_MAX),
  wrapped_shares: z.array(z.object({ person_id: z.uuid().toLowerCase(), wrapped_share: wrappedKey }))
    .max(HEIRS_MAX)
    .refine((shares) => new Set(shares.map((share) => share.person_id)).size === shares.length),
});
export const CHANGE = z.object({ change_id: id("change_not_found") });

type Json = Record<string, unknown>;

/**
 * POST /api/vault/:id/release/config: 200 with the vault; what makes it weaker stands in `pending_changes` until the
 * cooling period is over. Errors: `invalid_field:config` for a setting that the trigger does not have.
 */
export async function configureRelease(c: AppContext): Promise<Response> {
  const vault = await vaultArguments(c);
  const { trigger, config } = await parseBody(c, CONFIG);
  const settings: AnyConfig = config;
  const args = {
    ...vault,
    p_change_id: crypto.randomUUID(),
    p_trigger: trigger,
    p_enabled: settings.enabled ?? null,
    p_interval_days: settings.check_in_interval_days ?? null,
    p_grace_days: settings.grace_days ?? null,
    p_window_hours: settings.veto_window_hours ?? null,
    p_quorum: settings.quorum ?? null,
  };
  return c.json(await c.var.platform.db.call<Json>("configure_vault", args));
}

/** DELETE /api/vault/:id/changes/:change_id: 200 `{id, state: "canceled"}`. Errors: `change_not_found`. */
export async function cancelChange(c: AppContext): Promise<Response> {
  const vault = await vaultArguments(c);
  const { change_id } = await parse(c, CHANGE, { change_id: c.req.param("change_id") });
  return c.json(await c.var.platform.db.call<Json>("cancel_change", { ...vault, p_change_id: change_id }));
}

/** POST /api/vault/:id/check-in: 200 with the vault. Errors: `proof_of_life_required` for an ordinary key. */
export async function checkIn(c: AppContext): Promise<Response> {
  return c.json(await c.var.platform.db.call<Json>("check_in", await vaultArguments(c)));
}

/**
 * POST /api/vault/:id/release: 200 with the vault, whose release begins. Errors: `session_jwt_required`,
 * `no_confirmed_heir`, `wrong_vault_state`.
 */
export async function releaseVault(c: AppContext): Promise<Response> {
  const args = { ...await vaultArguments(c), p_request_id: crypto.randomUUID() };
  return c.json(await c.var.platform.db.call<Json>("release_vault", args));
}

/**
 * POST /api/vault/:id/release/veto: 200 with the vault, which is active. Errors: `proof_of_life_required`,
 * `nothing_to_veto`, `already_picked_up`.
 */
export async function vetoRelease(c: AppContext): Promise<Response> {
  const args = { ...await vaultArguments(c), p_request_id: crypto.randomUUID() };
  return c.json(await c.var.platform.db.call<Json>("veto_release", args));
}

/** POST /api/vault/:id/release/rearm: 200 with the vault, active, under new keys. Errors: `incomplete_shares`. */
export async function rearmVault(c: AppContext): Promise<Response> {
  const vault = await vaultArguments(c);
  const body = await parseBody(c, REARMING);
  const args = {
    ...vault,
    p_request_id: crypto.randomUUID(),
    p_key_epoch: body.key_epoch,
    p_person_ids: body.wrapped_shares.map((share) => share.person_id),
    p_wrapped_shares: body.wrapped_shares.map((share) => share.wrapped_share),
  };
  return c.json(await c.var.platform.db.call<Json>("rearm_vault", args));
}

/** POST /release/dispatch: 200 `{looked_at, moved, failed}` of one bounded run over the vaults whose time has come. */
export async function dispatchReleases(c: AppContext): Promise<Response> {
  return c.json(await dispatchVaults(c.var.platform, DISPATCH_MAX));
}
