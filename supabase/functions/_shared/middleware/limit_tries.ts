/** Limits on what is worth guessing or flooding, counted in the database: the same for every worker. */

import type { AppContext } from "../context.ts";
import { sha256 } from "../domain/bytes.ts";
import { ApiError } from "../errors.ts";
import { clientNetwork } from "./limit_rate.ts";

/** So many in each window of the clock. */
export interface RateLimit {
  name: string;
  max: number;
  windowSeconds: number;
}

/**
 * Counts one more for somebody, by default the person who has signed in or else the caller's network. Errors:
 * `rate_limited` with the seconds until the window is over.
 */
export async function limitTries(c: AppContext, limit: RateLimit, who = callerOf(c)): Promise<void> {
  const answer = await c.var.platform.db.call<{ allowed: boolean; retry_after_seconds: number }>(
    "hit_rate_limit",
    {
      p_bucket: sha256(`${limit.name} ${who}`),
      p_limit: limit.max,
      p_window_seconds: limit.windowSeconds,
    },
  );
  if (answer.allowed) return;
  throw new ApiError("rate_limited", { retry_after_seconds: answer.retry_after_seconds });
}

function callerOf(c: AppContext): string {
  return c.var.session === undefined
    ? `network ${clientNetwork(c) ?? ""}`
    : `subject ${c.var.session.subject}`;
}
