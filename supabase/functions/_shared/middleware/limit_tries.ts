/** Limits on what is worth guessing: tokens, tried by anybody. */

import type { AppContext } from "../context.ts";
import { sha256 } from "../domain/bytes.ts";
import { ApiError } from "../errors.ts";

const HOUR_SECONDS = 3_600;

/**
 * Counts one more try of `what`, by person, or by network address for those who are not signed in, and lets at most
 * `triesMax` of an hour through. Errors: `rate_limited`.
 */
export async function limitTries(c: AppContext, what: string, triesMax: number): Promise<void> {
  const address = c.req.header("x-forwarded-for")?.split(",")[0]?.trim() ?? "";
  const who = c.var.session === undefined ? `address ${address}` : `subject ${c.var.session.subject}`;
  const args = {
    p_bucket: sha256(`${what} ${who}`),
    p_limit: triesMax,
    p_window_seconds: HOUR_SECONDS,
  };
  const answer = await c.var.platform.db.call<{ allowed: boolean; retry_after_seconds: number }>(
    "hit_rate_limit",
    args,
  );
  if (!answer.allowed) {
    throw new ApiError("rate_limited", { retry_after_seconds: answer.retry_after_seconds });
  }
}
