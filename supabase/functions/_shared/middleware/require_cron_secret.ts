/** Lets in whoever runs the scheduled jobs. Spec section 5. */

import { createMiddleware } from "hono/factory";
import type { AppEnv } from "../context.ts";
import { sha256 } from "../domain/bytes.ts";
import { ApiError } from "../errors.ts";

const BEARER = /^Bearer +([^ ]+) *$/i;

/** Errors: `cron_not_configured` without a secret to compare with, `invalid_cron_secret` for a missing or wrong one. */
export const requireCronSecret = createMiddleware<AppEnv>(async function requireCronSecret(c, next) {
  const { cronSecret } = c.var.settings;
  if (cronSecret === undefined) throw new ApiError("cron_not_configured");
  const given = BEARER.exec(c.req.header("authorization") ?? "")?.[1] ?? "";
  if (!sameText(given, cronSecret)) throw new ApiError("invalid_cron_secret");
  await next();
});

/** Compares digests, each byte of them: the time that it takes says nothing of the secret, nor of its length. */
function sameText(a: string, b: string): boolean {
  const digest = sha256(b);
  return sha256(a).reduce((different, byte, i) => different | (byte ^ digest[i]!), 0) === 0;
}
