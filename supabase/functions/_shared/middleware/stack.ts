/** The frame that both functions share: what happens to every request before its route and after it. */

import { Hono, type MiddlewareHandler } from "hono";
import { cors } from "hono/cors";
import { requestId } from "hono/request-id";
import { secureHeaders } from "hono/secure-headers";
import { timing } from "hono/timing";
import type { AppEnv } from "../context.ts";
import type { Settings } from "../env.ts";
import type { Platform } from "../platform/mod.ts";
import { answerError, answerNotFound } from "./boundary.ts";
import { limitFailures, limitFloods } from "./limit_rate.ts";
import { observe } from "./observe.ts";

const EXPOSED_HEADERS = ["x-request-id", "x-result-count", "x-next-cursor", "retry-after", "server-timing"];
const ALLOWED_HEADERS = ["authorization", "content-type", "x-api-key", "x-device-id", "x-request-id"];
const PREFLIGHT_SECONDS = 86_400;

/** Headers for answers that are data, never a page: nothing in them may be run, framed or sniffed. */
const FOR_DATA: Parameters<typeof secureHeaders>[0] = {
  contentSecurityPolicy: { defaultSrc: ["'none'"], frameAncestors: ["'none'"] },
  crossOriginResourcePolicy: "cross-origin",
  crossOriginOpenerPolicy: false,
  originAgentCluster: false,
  xDnsPrefetchControl: false,
  xDownloadOptions: false,
  xFrameOptions: false,
  xPermittedCrossDomainPolicies: false,
  xXssProtection: false,
};

/**
 * An app with everything but routes. `getPath` names the route of a request; `dialects` are paths whose refusals are
 * written otherwise, those of the limits too.
 */
export function createFrame(
  platform: Platform,
  settings: Settings,
  getPath: (request: Request) => string,
  dialects: Record<string, MiddlewareHandler<AppEnv>> = {},
): Hono<AppEnv> {
  const app = new Hono<AppEnv>({ getPath });
  app.use(requestId());
  app.use(observe(platform, settings));
  app.use(timing({ enabled: settings.serverTiming, crossOrigin: "*" }));
  app.use(secureHeaders(FOR_DATA));
  app.use(cors({
    origin: settings.corsOrigins.includes("*") ? "*" : [...settings.corsOrigins],
    allowMethods: ["GET", "POST", "PUT", "PATCH", "DELETE"],
    allowHeaders: ALLOWED_HEADERS,
    exposeHeaders: EXPOSED_HEADERS,
    maxAge: PREFLIGHT_SECONDS,
  }));
  app.use(async function forbidCaching(c, next) {
    await next();
    c.res.headers.set("cache-control", "no-store");
  });
  for (const [path, speak] of Object.entries(dialects)) app.use(path, speak);
  app.use(limitFloods(settings));
  app.use(limitFailures());
  app.onError(answerError);
  app.notFound(answerNotFound);
  return app;
}
