/** The job that brings vaults up to date which nobody looks at: list → evaluate each in a transaction of its own. */

import { ApiError } from "../../_shared/errors.ts";
import type { Platform } from "../../_shared/platform/mod.ts";

/** After this time a run begins no other vault. */
const RUN_MS_MAX = 20_000;

/** What one run did. */
export interface DispatchReport {
  looked_at: number;
  /** Of those, how many changed their state. */
  moved: number;
  failed: number;
}

/**
 * Evaluates at most `limit` vaults whose time has come. Any number of runs may go on at once: each vault is locked
 * while it is looked at, and passed over by the others. One that fails stops no other. Errors: those of the database
 * when nothing can be listed.
 */
export async function dispatchVaults(platform: Platform, limit: number): Promise<DispatchReport> {
  const report = { looked_at: 0, moved: 0, failed: 0 };
  const startedAt = performance.now();
  const now = { p_now: platform.now().toISOString() };
  const due = await platform.db.call<string[]>("list_due_vaults", { ...now, p_limit: limit });
  for (const id of due) {
    if (performance.now() - startedAt > RUN_MS_MAX) break;
    try {
      const { moved } = await platform.db.call<{ moved: boolean }>("settle_vault", {
        p_vault_id: id,
        ...now,
      });
      report.looked_at++;
      if (moved) report.moved++;
    } catch (error) {
      report.failed++;
      const code = error instanceof ApiError ? error.code : "internal_error";
      platform.log({ level: "warn", event: "vault_not_settled", vault_id: id, error: code });
    }
  }
  return report;
}
