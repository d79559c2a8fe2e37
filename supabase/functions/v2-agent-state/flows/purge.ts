/** Removes what nobody needs any more, in small batches. Spec 4.8. */

import type { Purgeable, RetentionDays } from "../../_shared/domain/retention.ts";
import { ApiError } from "../../_shared/errors.ts";
import type { Platform } from "../../_shared/platform/mod.ts";
import { sweepSnapshots } from "./sweep_snapshots.ts";

/** Rows of one transaction: no lock is held for longer than a client would wait. */
const BATCH = 500;
/** Objects of one call to the storage. */
const OBJECTS_BATCH = 100;
/** After this time a run begins nothing more; the next one goes on. */
const RUN_MS_MAX = 45_000;
const DAY_SECONDS = 86_400;

/** What one run did, or would do. */
export interface PurgeReport {
  dry_run: boolean;
  /** Whether nothing was left that was due. */
  complete: boolean;
  /** Snapshots whose uploads lapsed, given up and refunded. */
  lapsed_snapshots: number;
  /** Rows removed, by their names in the table of retention; for `failed_uploads`, with their objects. */
  purged: Record<Purgeable, number>;
}

/**
 * Gives up lapsed uploads, and removes everything that is older than `retention` says. Any number of runs may go on at
 * once, and each may end anywhere: a batch is one transaction, an object goes before the row that names it. Errors:
 * `storage_unavailable` when objects could not be removed, after all that needs no storage.
 */
export async function purge(
  platform: Platform,
  retention: RetentionDays,
  runMsMax = RUN_MS_MAX,
): Promise<PurgeReport> {
  const startedAt = performance.now();
  const isTime = () => performance.now() - startedAt < runMsMax;
  const report: PurgeReport = {
    dry_run: false,
    complete: false,
    lapsed_snapshots: 0,
    purged: zeroes(retention),
  };

  let storageError: ApiError | undefined;
  try {
    await purgeUploads(platform, retention.failed_uploads * DAY_SECONDS, report, isTime);
  } catch (error) {
    if (!(error instanceof ApiError) || error.code !== "storage_unavailable") throw error;
    storageError = error;
  }
  for (const [name, days] of rulesOf(retention)) {
    let count = BATCH;
    while (count === BATCH && isTime()) {
      ({ count } = await platform.db.call<{ count: number }>("purge_expired", {
        p_what: name,
        p_keep_days: days,
        p_limit: BATCH,
      }));
      report.purged[name] += count;
    }
  }
  if (storageError !== undefined) throw storageError;
  report.complete = isTime();
  return report;
}

/** Counts what {@link purge} would do, and changes nothing. */
export async function countPurgeable(platform: Platform, retention: RetentionDays): Promise<PurgeReport> {
  const { failed, orphans } = await platform.db.call<{ failed: number; orphans: number }>("count_unsettled", {
    p_grace_seconds: retention.failed_uploads * DAY_SECONDS,
  });
  const purged = { ...zeroes(retention), failed_uploads: orphans };
  for (const [name, days] of rulesOf(retention)) {
    const { count } = await platform.db.call<{ count: number }>("count_expired", {
      p_what: name,
      p_keep_days: days,
    });
    purged[name] = count;
  }
  return { dry_run: true, complete: true, lapsed_snapshots: failed, purged };
}

async function purgeUploads(
  platform: Platform,
  graceSeconds: number,
  report: PurgeReport,
  isTime: () => boolean,
): Promise<void> {
  for (let more = true; more && isTime();) {
    const { failed, removed, full } = await sweepSnapshots(platform, OBJECTS_BATCH, graceSeconds);
    report.lapsed_snapshots += failed;
    report.purged.failed_uploads += removed;
    more = full;
  }
}

/** What the database removes by itself: all but uploads, which have objects. */
function rulesOf(retention: RetentionDays): [Purgeable, number][] {
  return (Object.entries(retention) as [Purgeable, number][]).filter(([name]) => name !== "failed_uploads");
}

function zeroes(retention: RetentionDays): Record<Purgeable, number> {
  return Object.fromEntries(Object.keys(retention).map((name) => [name, 0])) as Record<Purgeable, number>;
}
