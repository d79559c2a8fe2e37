/** Lets in whoever runs the scheduled jobs, and notes that they ran. Spec section 5. */

import { createMiddleware } from "hono/factory";
import { routePath } from "hono/route";
import type { AppEnv } from "../context.ts";
import { sha256 } from "../domain/bytes.ts";
import { ApiError } from "../errors.ts";

const BEARER = /^Bearer +([^ ]+) *$/i;

/**
 * Errors: `cron_not_configured` without a secret to compare with, `invalid_cron_secret` for a missing or wrong one.
 * A run that went well is noted, so that `task doctor` can tell; one with parameters (`dry_run=1`) is not the job.
 */
export const requireCronSecret = createMiddleware<AppEnv>(async function requireCronSecret(c, next) {
  const { cronSecret } = c.var.settings;
  if (cronSecret === undefined) throw new ApiError("cron_not_configured");
  const given = BEARER.exec(c.req.header("authorization") ?? "")?.[1] ?? "";
  if (!sameText(given, cronSecret)) throw new ApiError("invalid_cron_secret");
  await next();
  if (!c.res.ok || new URL(c.req.url).search !== "") return;
  await c.var.platform.db.call("record_job_run", { p_path: routePath(c) });
});

/** Compares digests, each byte of them: the time that it takes says nothing of the secret, nor of its length. */
function sameText(a: string, b: string): boolean {
  const digest = sha256(b);
  return sha256(a).reduce((different, byte, i) => different | (byte ^ digest[i]!), 0) === 0;
}
