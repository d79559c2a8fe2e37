/** What the service does besides answering: work left over from requests, and jobs at intervals. */

import type { LogRecord } from "../supabase/functions/_shared/platform/mod.ts";

/** Something to do again and again. */
export interface Job {
  name: string;
  everyMs: number;
  run(): Promise<void>;
}

/** Keeps promises until they settle, so that a stop can wait for them. */
export function trackWork(log: (record: LogRecord) => void) {
  const running = new Set<Promise<void>>();
  return {
    add(work: Promise<void>): void {
      const settled: Promise<void> = work
        .catch((error) => log({ level: "error", event: "background_work_failed", error: nameOf(error) }))
        .finally(() => void running.delete(settled));
      running.add(settled);
    },
    async drain(): Promise<void> {
      while (running.size > 0) await Promise.all(running);
    },
  };
}

/** Runs each job at its interval, never twice at once. */
export function startJobs(jobs: readonly Job[], log: (record: LogRecord) => void) {
  const work = trackWork(log);
  const busy = new Set<string>();
  const timers = jobs.map(({ name, everyMs, run }) =>
    setInterval(() => {
      if (busy.has(name)) return;
      busy.add(name);
      work.add(run().finally(() => void busy.delete(name)));
    }, everyMs)
  );
  return {
    async stop(): Promise<void> {
      for (const timer of timers) clearInterval(timer);
      await work.drain();
    },
  };
}

/** An error's class only: its message may quote data. */
function nameOf(error: unknown): string {
  return error instanceof Error ? error.name : typeof error;
}
