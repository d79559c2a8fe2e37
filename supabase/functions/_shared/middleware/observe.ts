/** Gives every request its platform, its start time, and one line in the log when it is answered. */

import { routePath } from "hono/route";
import { createMiddleware } from "hono/factory";
import { ApiError } from "../errors.ts";
import type { AppEnv } from "../context.ts";
import type { Settings } from "../env.ts";
import type { Platform } from "../platform/mod.ts";

/** The first middleware. The log has the route's pattern, never the path: paths hold identifiers. */
export function observe(platform: Platform, settings: Settings) {
  return createMiddleware<AppEnv>(async function observe(c, next) {
    const startedAt = performance.now();
    c.set("platform", platform);
    c.set("settings", settings);
    c.set("startedAt", startedAt);
    await next();
    const error = c.error instanceof ApiError
      ? c.error.code
      : c.error === undefined
      ? null
      : "internal_error";
    platform.log({
      level: c.res.status >= 500 ? "error" : "info",
      event: "request",
      request_id: c.get("requestId"),
      method: c.req.method,
      route: routePath(c),
      status: c.res.status,
      ms: Math.round((performance.now() - startedAt) * 10) / 10,
      error,
    });
  });
}
