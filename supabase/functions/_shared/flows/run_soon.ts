/** Work that a request leaves behind: done soon, in the background, at most once at a time for each platform. */

import { ApiError } from "../errors.ts";
import type { Platform } from "../platform/mod.ts";

/**
 * Makes a function that starts `work` without making its caller wait. What is asked for while a run is ending is not
 * missed: being asked during a run makes it look again. A failure is logged as `failed` and left to the next run.
 */
export function runSoon<Settings>(
  work: (platform: Platform, settings: Settings) => Promise<unknown>,
  failed: string,
): (platform: Platform, settings: Settings) => void {
  const running = new WeakMap<Platform, { askedAgain: boolean }>();
  return function soon(platform, settings) {
    const present = running.get(platform);
    if (present !== undefined) {
      present.askedAgain = true;
      return;
    }
    const run = { askedAgain: true };
    running.set(platform, run);
    platform.background(repeat());

    async function repeat(): Promise<void> {
      try {
        while (run.askedAgain) {
          run.askedAgain = false;
          await work(platform, settings);
        }
      } catch (error) {
        const code = error instanceof ApiError ? error.code : "internal_error";
        platform.log({ level: "warn", event: failed, error: code });
      } finally {
        running.delete(platform);
      }
    }
  };
}
