/** After a request that may have changed a vault: see to it that webhooks and people hear of it. */

import { createMiddleware } from "hono/factory";
import type { AppEnv } from "../../_shared/context.ts";

/** Calls `deliver` once the request is answered. What a mere read has moved on is left to the job. */
export function deliverNews(deliver: () => void) {
  return createMiddleware<AppEnv>(async function deliverNews(c, next) {
    await next();
    if (c.res.ok && c.req.method !== "GET") deliver();
  });
}
