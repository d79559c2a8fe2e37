/** What heirs and guardians do with the token from their mail. Spec 4.9; docs/vault.md. */

import { z } from "zod";
import type { AppContext } from "../../_shared/context.ts";
import { parse, parseBody } from "../../_shared/middleware/parse.ts";
import { freeText, id, pem, text } from "../../_shared/middleware/shapes.ts";
import { type AssetRow, showAsset } from "../domain/asset.ts";
import { LABEL_LENGTH_MAX, REASON_LENGTH_MAX } from "../domain/limits.ts";
import { guestArguments, tokenArguments } from "../middleware/vault_arguments.ts";

export const TOKEN = z.object({ token: text(LABEL_LENGTH_MAX) });
export const ACCEPTANCE = TOKEN.extend({ public_key: pem.nullish() });
export const CLAIM = TOKEN.extend({ reason: freeText(REASON_LENGTH_MAX).min(1).nullish() });
export const VOTE = TOKEN.extend({ vote: z.enum(["concur", "reject"]) });
export const CLAIM_ID = z.object({ claim_id: id("claim_not_found") });
export const ASSET_ID = z.object({ asset_id: id("asset_not_found") });

type Json = Record<string, unknown>;

/** POST /api/vault/invitation: 200 with what the token is for. Errors: `invitation_not_found`, `rate_limited`. */
export async function readVaultInvitation(c: AppContext): Promise<Response> {
  const { token } = await parseBody(c, TOKEN);
  return c.json(await c.var.platform.db.call<Json>("read_vault_invitation", await tokenArguments(c, token)));
}

/** POST /api/vault/invitation/accept: 200 with what the token is for; `status` is `accepted`, or `confirmed`. */
export async function acceptVaultInvitation(c: AppContext): Promise<Response> {
  const { token, public_key } = await parseBody(c, ACCEPTANCE);
  const args = { ...await tokenArguments(c, token), p_public_key: public_key ?? null };
  return c.json(await c.var.platform.db.call<Json>("accept_vault_invitation", args));
}

/** POST /api/vault/invitation/decline: 200 `{vault_id, role, status: "declined"}`; the token is worth nothing now. */
export async function declineVaultInvitation(c: AppContext): Promise<Response> {
  const { token } = await parseBody(c, TOKEN);
  const args = { ...await tokenArguments(c, token), p_request_id: crypto.randomUUID() };
  return c.json(await c.var.platform.db.call<Json>("decline_vault_invitation", args));
}

/**
 * POST /api/vault/:id/claim: 201 with the claim, which has the claimant's vote. Errors: `trigger_disabled`,
 * `claim_exists`, `claim_cooling_down`, `too_few_guardians`, `no_confirmed_heir`, `forbidden_person`.
 */
export async function openClaim(c: AppContext): Promise<Response> {
  const { token, reason } = await parseBody(c, CLAIM);
  const claim = await c.var.platform.db.call<Json>("open_claim", {
    ...await guestArguments(c, token),
    p_claim_id: crypto.randomUUID(),
    p_reason: reason ?? null,
  });
  return c.json(claim, 201);
}

/** POST …/claim/:claim_id/vote: 200 with the claim. Errors: `claim_closed`, `claim_not_found`, `forbidden_person`. */
export async function voteClaim(c: AppContext): Promise<Response> {
  const { token, vote } = await parseBody(c, VOTE);
  const args = { ...await claimArguments(c, token), p_vote: vote };
  return c.json(await c.var.platform.db.call<Json>("vote_claim", args));
}

/** POST …/claim/:claim_id/withdraw: 200 with the claim. Errors: `claim_closed`, `claim_not_found`. */
export async function withdrawClaim(c: AppContext): Promise<Response> {
  const { token } = await parseBody(c, TOKEN);
  return c.json(await c.var.platform.db.call<Json>("withdraw_claim", await claimArguments(c, token)));
}

/** POST /api/vault/:id/pick-up: 200 with what is wrapped for the heir. Errors: `not_released`, `forbidden_person`. */
export async function pickUpVault(c: AppContext): Promise<Response> {
  const { token } = await parseBody(c, TOKEN);
  return c.json(await c.var.platform.db.call<Json>("pick_up_vault", await guestArguments(c, token)));
}

/** POST /api/vault/:id/pick-up/:asset_id: 200 with one asset, its wrapped key and `ciphertext_b64`. */
export async function pickUpAsset(c: AppContext): Promise<Response> {
  const { token } = await parseBody(c, TOKEN);
  const { asset_id } = await parse(c, ASSET_ID, { asset_id: c.req.param("asset_id") });
  const args = { ...await guestArguments(c, token), p_asset_id: asset_id };
  const [row] = await c.var.platform.db.rows<AssetRow>("pick_up_asset", args, ["ciphertext"]);
  return c.json(showAsset(row!));
}

async function claimArguments(c: AppContext, token: string) {
  const { claim_id } = await parse(c, CLAIM_ID, { claim_id: c.req.param("claim_id") });
  return { ...await guestArguments(c, token), p_claim_id: claim_id };
}
