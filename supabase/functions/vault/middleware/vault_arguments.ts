/** Which vault a request is about, who asks, and what time it is. */

import { z } from "zod";
import type { AppContext } from "../../_shared/context.ts";
import { sha256 } from "../../_shared/domain/bytes.ts";
import { limitTries } from "../../_shared/middleware/limit_tries.ts";
import { parse } from "../../_shared/middleware/parse.ts";
import { id } from "../../_shared/middleware/shapes.ts";
import { TOKEN_TRIES } from "../domain/limits.ts";

/** A path with a vault's id. */
export const VAULT = z.object({ id: id("vault_not_found") });

/** The arguments that every function called by an owner has. The platform's clock is the only one that counts. */
export function ownerArguments(c: AppContext) {
  return {
    p_key_hash: c.var.credential?.hash ?? null,
    p_subject: c.var.session?.subject ?? null,
    p_email: c.var.session?.email ?? null,
    ...timeArguments(c),
  };
}

/** The same, about the vault of the path. Errors: `vault_not_found` for what is no id. */
export async function vaultArguments(c: AppContext) {
  const vault = await parse(c, VAULT, { id: c.req.param("id") });
  return { ...ownerArguments(c), p_vault_id: vault.id };
}

/** The arguments of an heir or guardian who comes with a token. Errors: `rate_limited`. */
export async function tokenArguments(c: AppContext, token: string) {
  await limitTries(c, TOKEN_TRIES);
  return { p_token_hash: sha256(token), ...timeArguments(c) };
}

/** The same, about the vault of the path. Errors: `vault_not_found` for what is no id. */
export async function guestArguments(c: AppContext, token: string) {
  const vault = await parse(c, VAULT, { id: c.req.param("id") });
  return { ...await tokenArguments(c, token), p_vault_id: vault.id };
}

/** The moment that a request happens at, for the database. */
export function timeArguments(c: AppContext): { p_now: string } {
  return { p_now: c.var.platform.now().toISOString() };
}
