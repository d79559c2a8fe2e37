/** Clears up after uploads that were never finished: refunds them and removes the objects nobody refers to. */

import { ApiError } from "../../_shared/errors.ts";
import type { Platform } from "../../_shared/platform/mod.ts";

/** What one sweep did. */
export interface SweepReport {
  failed: number;
  removed: number;
  /** Whether there may be more: it found as many as it may take, whoever has counted them. */
  full: boolean;
}

/**
 * Settles lapsed leases, then removes objects that have been orphaned for `graceSeconds`, at most `limit` of each. Safe
 * to run twice at once and to kill: rows outlive their objects, and removing an object again is harmless.
 */
export async function sweepSnapshots(
  platform: Platform,
  limit: number,
  graceSeconds = 0,
): Promise<SweepReport> {
  const { failed, orphans } = await platform.db.call<{
    failed: number;
    orphans: { attempt_id: string; object_name: string }[];
  }>("settle_snapshots", { p_limit: limit, p_grace_seconds: graceSeconds });
  const full = failed >= limit || orphans.length >= limit;
  if (orphans.length === 0) return { failed, removed: 0, full };
  await removeObjects(platform, orphans.map((orphan) => orphan.object_name));
  // Whoever forgets a row counts it: another sweep may have found the same ones.
  const { forgotten } = await platform.db.call<{ forgotten: number }>("forget_attempts", {
    p_attempt_ids: orphans.map((orphan) => orphan.attempt_id),
  });
  return { failed, removed: forgotten, full };
}

async function removeObjects(platform: Platform, names: readonly string[]): Promise<void> {
  try {
    await platform.blobs.remove(names);
  } catch (cause) {
    throw new ApiError("storage_unavailable", {}, { cause });
  }
}
