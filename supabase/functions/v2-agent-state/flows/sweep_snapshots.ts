/** Clears up after uploads that were never finished: refunds them and removes the objects nobody refers to. */

import type { Platform } from "../../_shared/platform/mod.ts";

/** What one sweep did. */
export interface SweepReport {
  failed: number;
  removed: number;
}

/**
 * Settles lapsed leases, then removes orphaned objects, at most `limit` of each. Safe to run twice at once and to
 * kill: rows outlive their objects, and removing an object again is harmless.
 */
export async function sweepSnapshots(platform: Platform, limit: number): Promise<SweepReport> {
  const { failed, orphans } = await platform.db.call<{
    failed: number;
    orphans: { attempt_id: string; object_name: string }[];
  }>("settle_snapshots", { p_limit: limit });
  if (orphans.length === 0) return { failed, removed: 0 };
  await platform.blobs.remove(orphans.map((orphan) => orphan.object_name));
  await platform.db.call("forget_attempts", { p_attempt_ids: orphans.map((orphan) => orphan.attempt_id) });
  return { failed, removed: orphans.length };
}
