/** Every URL of the vault interface, on one screen. */

import type { Hono } from "hono";
import type { AppEnv } from "../_shared/context.ts";
import { rawPath, stripPrefixes } from "../_shared/domain/paths.ts";
import type { Settings } from "../_shared/env.ts";
import { health } from "../_shared/handlers/health.ts";
import { createFrame } from "../_shared/middleware/stack.ts";
import type { Platform } from "../_shared/platform/mod.ts";
import { readVaultOpenApi } from "./handlers/openapi.ts";

const PREFIXES = ["/functions/v1", "/vault"];

/** Builds the vault interface on a platform. */
export function createApp(platform: Platform, settings: Settings): Hono<AppEnv> {
  const app = createFrame(platform, settings, (request) => stripPrefixes(rawPath(request.url), PREFIXES));

  app.get("/health", health);
  app.get("/openapi.json", readVaultOpenApi);

  return app;
}
