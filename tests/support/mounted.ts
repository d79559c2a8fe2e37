/** The routes that are really mounted, read from the apps themselves. */

import type { Hono } from "hono";
import { readSettings } from "../../supabase/functions/_shared/env.ts";
import type { Platform } from "../../supabase/functions/_shared/platform/mod.ts";
import { createApp } from "../../supabase/functions/v2-agent-state/app.ts";
import { createApp as createVault } from "../../supabase/functions/vault/app.ts";

/** Mounting routes asks the platform for nothing. */
const NO_PLATFORM = {} as Platform;

/** `METHOD /path` of every route; those of the vault with `vault ` in front. */
export function mountedRoutes(): string[] {
  const settings = readSettings({});
  return [
    ...routesOf(createApp(NO_PLATFORM, settings)),
    ...routesOf(createVault(NO_PLATFORM, settings)).map((route) => `vault ${route}`),
  ];
}

// deno-lint-ignore no-explicit-any
function routesOf(app: Hono<any>): string[] {
  const routes = app.routes.filter(({ method }) => method !== "ALL");
  return [...new Set(routes.map(({ method, path }) => `${method} ${path}`))];
}
