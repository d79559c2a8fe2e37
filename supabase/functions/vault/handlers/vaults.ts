/** Vaults, and who is named in them, as their owner sees and changes them. Spec 2.12 and 4.9; docs/vault.md. */

import { z } from "zod";
import type { AppContext } from "../../_shared/context.ts";
import { parse, parseBody } from "../../_shared/middleware/parse.ts";
import { email, id, name, pem, text, wrappedKey } from "../../_shared/middleware/shapes.ts";
import { WALLET_LENGTH_MAX } from "../domain/limits.ts";
import { ownerArguments, vaultArguments } from "../middleware/vault_arguments.ts";

export const NEW_VAULT = z.object({ name, sss_preset: z.enum(["standard", "enhanced"]).default("standard") });
export const NEW_PERSON = z.object({
  name,
  email,
  walletAddress: text(WALLET_LENGTH_MAX).nullish(),
  public_key: pem.nullish(),
  wrapped_share: wrappedKey.nullish(),
});
export const PERSON = z.object({ person_id: id("person_not_found") });
export const CONFIRMATION = z.object({ wrapped_share: wrappedKey.nullish() });

type Json = Record<string, unknown>;

/** GET /api/vault: 200 `{vaults}`, oldest first. */
export async function listVaults(c: AppContext): Promise<Response> {
  return c.json({ vaults: await c.var.platform.db.call<Json[]>("list_vaults", ownerArguments(c)) });
}

/** POST /api/vault: 201 with the vault; nothing is armed yet. Errors: `vault_limit_reached`. */
export async function createVault(c: AppContext): Promise<Response> {
  const body = await parseBody(c, NEW_VAULT);
  const vault = await c.var.platform.db.call<Json>("create_vault", {
    ...ownerArguments(c),
    p_vault_id: crypto.randomUUID(),
    p_name: body.name,
    p_sss_preset: body.sss_preset,
  });
  return c.json(vault, 201);
}

/** GET /api/vault/:id: 200 with the vault, brought up to date; no ciphertext, nothing wrapped. */
export async function readVault(c: AppContext): Promise<Response> {
  return c.json(await c.var.platform.db.call<Json>("read_vault", await vaultArguments(c)));
}

/**
 * POST /api/vault/:id/heir and …/guardian: 201 with the person, who is invited by mail. Errors: `person_exists`,
 * `vault_limit_reached`, `wrong_vault_state`, `invalid_field:email` for the owner's own address.
 */
export async function addPerson(c: AppContext): Promise<Response> {
  const vault = await vaultArguments(c);
  const body = await parseBody(c, NEW_PERSON);
  const person = await c.var.platform.db.call<Json>("add_person", {
    ...vault,
    p_person_id: crypto.randomUUID(),
    p_role: roleOf(c),
    p_name: body.name,
    p_person_email: body.email,
    p_wallet_address: body.walletAddress ?? null,
    p_public_key: body.public_key ?? null,
    p_wrapped_share: body.wrapped_share ?? null,
  });
  return c.json(person, 201);
}

/** POST …/:person_id/confirm: 200 with the person, who is in. Errors: `person_not_accepted`. */
export async function confirmPerson(c: AppContext): Promise<Response> {
  const person = await personArguments(c);
  const body = await parseBody(c, CONFIRMATION);
  const args = { ...person, p_wrapped_share: body.wrapped_share ?? null };
  return c.json(await c.var.platform.db.call<Json>("confirm_person", args));
}

/** POST …/:person_id/resend: 200 with the person; the tokens of earlier mails stop working. */
export async function resendInvitation(c: AppContext): Promise<Response> {
  return c.json(await c.var.platform.db.call<Json>("resend_invitation", await personArguments(c)));
}

/**
 * DELETE …/:person_id: 200 `{id, status: "removed"}`; 202 with `change` for somebody who is in, whom it removes once the
 * cooling period is over. Errors: `person_not_found`, `wrong_vault_state`.
 */
export async function removePerson(c: AppContext): Promise<Response> {
  const args = { ...await personArguments(c), p_change_id: crypto.randomUUID() };
  const answer = await c.var.platform.db.call<Json>("remove_person", args);
  return c.json(answer, answer.change === undefined ? 200 : 202);
}

async function personArguments(c: AppContext) {
  const vault = await vaultArguments(c);
  const { person_id } = await parse(c, PERSON, { person_id: c.req.param("person_id") });
  return { ...vault, p_role: roleOf(c), p_person_id: person_id };
}

/** The routes of heirs and of guardians differ in this word alone. */
function roleOf(c: AppContext): "heir" | "guardian" {
  return /^\/api\/vault\/[^/]+\/heir(?:\/|$)/.test(c.req.path) ? "heir" : "guardian";
}
