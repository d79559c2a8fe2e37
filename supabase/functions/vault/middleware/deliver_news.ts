/** After a request that may have moved a vault on: see to it that webhooks and people hear of it. */

import { createMiddleware } from "hono/factory";
import type { AppEnv } from "../../_shared/context.ts";

/** Calls `deliver` once the request is answered. A mere read counts: it brings the vault up to date. */
export function deliverNews(deliver: () => void) {
  return createMiddleware<AppEnv>(async function deliverNews(c, next) {
    await next();
    if (c.res.ok) deliver();
  });
}
