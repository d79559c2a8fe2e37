/**
 * Runs the schedule of `app.list_schedule` where there is no pg_cron: the same requests, with the same secret, at the
 * same intervals. Each job also runs at the start, because a machine that sleeps would never see some of them.
 */

import { setTimeout } from "node:timers/promises";
import type { Database, LogRecord } from "../supabase/functions/_shared/platform/mod.ts";

const MINUTE_MS = 60_000;

/** A job as `api.read_schedule` returns it. */
export interface ScheduledJob {
  name: string;
  /** The edge function that serves it. */
  function: string;
  path: string;
  every_minutes: number;
  timeout_seconds: number;
  /** When it last went well; null for never. */
  succeeded_at: string | null;
}

/** Where the jobs go, and what lets them in. */
export interface ScheduleOptions {
  db: Database;
  /** Origin of the running service. */
  origin: string;
  secret: string;
  log: (record: LogRecord) => void;
  /** Runs every job this often instead, to try things out without waiting. */
  everySeconds?: number | undefined;
}

/** Starts the schedule. A job that is still running when its time comes again is not started twice. */
export async function startSchedule(options: ScheduleOptions): Promise<{ stop(): void }> {
  const { db, origin, secret, log, everySeconds } = options;
  const stopped = new AbortController();

  async function run(job: ScheduledJob): Promise<void> {
    try {
      const response = await fetch(`${origin}/functions/v1/${job.function}${job.path}`, {
        method: "POST",
        headers: { authorization: `Bearer ${secret}`, "content-type": "application/json" },
        body: "{}",
        signal: AbortSignal.timeout(job.timeout_seconds * 1000),
      });
      const { error = null } = await response.json().catch(() => ({}));
      if (!response.ok) {
        log({ level: "warn", event: "job_failed", job: job.name, status: response.status, error });
      }
    } catch (error) {
      if (stopped.signal.aborted) return;
      const reason = error instanceof Error ? error.name : "unknown";
      log({ level: "warn", event: "job_failed", job: job.name, status: null, error: reason });
    }
  }

  const jobs = await db.call<ScheduledJob[]>("read_schedule", {});
  for (const job of jobs) {
    const everyMs = everySeconds === undefined ? job.every_minutes * MINUTE_MS : everySeconds * 1000;
    void repeat(() => run(job), everyMs, stopped.signal);
  }
  // A request that is under way is the server's to finish, like any other.
  return { stop: () => stopped.abort() };
}

/** Runs at once, and then whenever another interval has passed and the last run is over. */
async function repeat(run: () => Promise<void>, everyMs: number, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const startedAt = performance.now();
    await run();
    const rest = everyMs - (performance.now() - startedAt) % everyMs;
    await setTimeout(rest, undefined, { signal }).catch(() => {});
  }
}
