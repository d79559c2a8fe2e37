/** After a request that made something happen: see to it that webhooks hear of it. */

import { createMiddleware } from "hono/factory";
import type { AppEnv } from "../context.ts";

/** Calls `deliver` once the request is answered, if somebody may be listening. */
export function deliverEvents(deliver: () => void) {
  return createMiddleware<AppEnv>(async function deliverEvents(c, next) {
    await next();
    // Busy routes know whether somebody listens; what people do by hand is rare enough to look each time.
    const byHand = c.req.method !== "GET" && c.get("credential") === undefined;
    if (c.res.ok && (c.get("told") ?? byHand)) deliver();
  });
}
