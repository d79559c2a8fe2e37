/** Who comes as a vault's owner: by API key, or signed in. Spec 4.9 and 5. */

import { createMiddleware } from "hono/factory";
import type { AppContext, AppEnv } from "../../_shared/context.ts";
import { parseCredential } from "../../_shared/domain/credential.ts";
import { ApiError } from "../../_shared/errors.ts";
import { requireSession } from "../../_shared/middleware/require_session.ts";

const SESSION = /^Bearer +(?!sov_)/i;

/**
 * Sets `credential` from `x-api-key`; without that header, `session` from a session JWT. Errors:
 * `missing_or_invalid_api_key`, `invalid_api_key`, `invalid_session`.
 */
export const requireOwner = createMiddleware<AppEnv>(async function requireOwner(c, next) {
  if (c.req.header("x-api-key") === undefined && isSession(c)) return await requireSession(c, next);
  return await readKey(c, next);
});

/** The same for what only the living owner may do: a session, when there is one, says more than a key. */
export const requireLivingOwner = createMiddleware<AppEnv>(async function requireLivingOwner(c, next) {
  return isSession(c) ? await requireSession(c, next) : await readKey(c, next);
});

async function readKey(c: AppContext, next: () => Promise<void>): Promise<void> {
  const credential = parseCredential(c.req.header("x-api-key") ?? "");
  if (credential === "unknown") throw new ApiError("invalid_api_key");
  if (credential?.kind !== "live") throw new ApiError("missing_or_invalid_api_key");
  c.set("credential", credential);
  await next();
}

function isSession(c: AppContext): boolean {
  return SESSION.test(c.req.header("authorization") ?? "");
}
