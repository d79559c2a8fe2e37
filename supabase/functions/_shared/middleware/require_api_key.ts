/** Reads an API key or project token from the Authorization header. Spec section 5, rules 1 and 2. */

import { createMiddleware } from "hono/factory";
import type { AppContext, AppEnv } from "../context.ts";
import { sha256 } from "../domain/bytes.ts";
import { parseCredential } from "../domain/credential.ts";
import { ApiError } from "../errors.ts";
import { readBearerToken } from "./bearer.ts";

/**
 * Sets `credential` and `device`. Whether the key is known and not revoked is decided by the operation's own SQL
 * function, in the same round trip as the operation; what cannot be a key never gets that far.
 */
export const requireApiKey = createMiddleware<AppEnv>(async function requireApiKey(c, next) {
  const credential = parseCredential(readBearerToken(c));
  if (credential === undefined) throw new ApiError("missing_or_invalid_bearer_token");
  if (credential === "unknown") throw new ApiError("invalid_api_key");
  const device = c.req.header("x-device-id");
  c.set("credential", credential);
  c.set("device", device ? sha256(device) : null);
  await next();
});

/** The arguments that every function called with an API key begins with. */
export function credentialArguments(
  c: AppContext,
): { p_credential_kind: string; p_credential_hash: Uint8Array } {
  const { kind, hash } = c.get("credential");
  return { p_credential_kind: kind, p_credential_hash: hash };
}
