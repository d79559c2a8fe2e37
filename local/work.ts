/** What the service does besides answering: work left over from requests. */

import type { LogRecord } from "../supabase/functions/_shared/platform/mod.ts";

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

/** An error's class only: its message may quote data. */
function nameOf(error: unknown): string {
  return error instanceof Error ? error.name : typeof error;
}
