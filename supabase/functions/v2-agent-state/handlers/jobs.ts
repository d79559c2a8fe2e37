/** The jobs that run on a schedule, for whoever holds the cron secret. Spec 4.8. */

import { z } from "zod";
import type { AppContext } from "../../_shared/context.ts";
import { parse } from "../../_shared/middleware/parse.ts";
import { dispatchLifecycle } from "../flows/dispatch_lifecycle.ts";
import { countPurgeable, purge } from "../flows/purge.ts";

/** What the purge takes. */
export const PURGE = z.object({ dry_run: z.enum(["0", "1", "false", "true"]).default("0") });

/**
 * POST /retention/purge: 200 `{dry_run, complete, lapsed_snapshots, purged}`; with `?dry_run=1` it only counts. Errors:
 * `storage_unavailable` when objects could not be removed.
 */
export async function purgeRetention(c: AppContext): Promise<Response> {
  const { dry_run } = await parse(c, PURGE, c.req.query());
  const { platform, settings } = c.var;
  const dry = dry_run === "1" || dry_run === "true";
  return c.json(await (dry ? countPurgeable : purge)(platform, settings.retention));
}

/** POST /lifecycle/dispatch: 200 `{queued, sent, failed}` of one bounded run. */
export async function dispatchLifecycleMails(c: AppContext): Promise<Response> {
  return c.json(await dispatchLifecycle(c.var.platform, c.var.settings));
}
