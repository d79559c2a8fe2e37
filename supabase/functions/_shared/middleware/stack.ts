/** The frame that both functions share: what happens to every request before its route and after it. */

import { Hono, type MiddlewareHandler } from "hono";
import { TrieRouter } from "hono/router/trie-router";
import { timing } from "hono/timing";
import type { AppEnv } from "../context.ts";
import type { Settings } from "../env.ts";
import type { Platform } from "../platform/mod.ts";
import { describeData, identify, shareAcrossOrigins } from "./answer_headers.ts";
import { answerError, answerNotFound } from "./boundary.ts";
import { limitFailures, limitFloods } from "./limit_rate.ts";
import { observe } from "./observe.ts";

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
  // The one that can tell all our paths apart: by default another one is tried first, at the first request.
  const app = new Hono<AppEnv>({ getPath, router: new TrieRouter() });
  app.use(identify);
  app.use(observe(platform, settings));
  if (settings.serverTiming) app.use(timing({ crossOrigin: "*" }));
  app.use(describeData);
  app.use(shareAcrossOrigins(settings.corsOrigins));
  for (const [path, speak] of Object.entries(dialects)) app.use(path, speak);
  app.use(limitFloods(settings));
  app.use(limitFailures());
  app.onError(answerError);
  app.notFound(answerNotFound);
  return app;
}
