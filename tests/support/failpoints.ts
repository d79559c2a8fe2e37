/**
 * Failpoints: named places in a running service where a test makes something go wrong.
 *
 * They lie around the ports of the platform, before and after each call that reaches outside the process. That is
 * every boundary between two effects, because nothing else has effects: `tests/contract/imports_test.ts` holds the
 * code to it. So production code has no failpoints in it, and nothing there could switch one on.
 */

import { ApiError } from "../../supabase/functions/_shared/errors.ts";
import type { Platform } from "../../supabase/functions/_shared/platform/mod.ts";

/** Ports whose calls are effects. The others (sessions, clock, log, background work) are not. */
const PORTS = ["db", "blobs", "seats", "payments", "mailer", "hooks", "providers", "names"] as const;
/** Calls that do not leave the process. */
const PURE = new Set(["blobs.publicUrl", "payments.verifyEvent"]);

/** A place in the service: `db.begin_snapshot:before`, `blobs.put:after`. */
export type Failpoint = `${string}:${"before" | "after"}`;

/** Who is told of what happens at the failpoints. */
export interface Watcher {
  /** Called at each failpoint; what it throws is thrown there. */
  reach(point: Failpoint): Promise<void>;
  /** Called when an effect begins, and when it has ended in any way. */
  begun(): void;
  ended(): void;
}

/** The same platform with a failpoint before and after every effect. */
export function placeFailpoints(platform: Platform, watcher: Watcher): Platform {
  const placed: Record<string, unknown> = { ...platform };
  for (const port of PORTS) placed[port] = wrapPort(port, platform[port], watcher);
  return placed as unknown as Platform;
}

/** What a failure at a failpoint looks like to the code: what the port throws when the outside world is away. */
export function failureAt(point: Failpoint): Error {
  const port = point.slice(0, point.indexOf("."));
  if (port === "db") return new ApiError("service_unavailable");
  if (port === "providers") return new ApiError("sso_provider_unavailable");
  if (port === "names") return new ApiError("dns_unavailable");
  if (port === "seats" || port === "payments") return new ApiError("payment_provider_unavailable");
  return new Error(`failed at ${point}`);
}

/** Those that never throw say what came of it. */
const FAILURES: Record<string, unknown> = {
  "hooks.findFault": "unresolvable",
  "hooks.send": { status: null, error: "unreachable", retryAfterSeconds: null },
  "providers.fetchMetadata": { fault: "unreachable" },
};

function wrapPort(port: string, target: object, watcher: Watcher): object {
  return new Proxy(target, {
    get(object, key) {
      const method = Reflect.get(object, key);
      if (typeof method !== "function" || PURE.has(`${port}.${String(key)}`)) return method;
      return async (...args: unknown[]) => {
        // Calls of the database are told apart by the function that they call.
        const name = `${port}.${port === "db" ? String(args[0]) : String(key)}`;
        const call = async () => {
          watcher.begun();
          try {
            await watcher.reach(`${name}:before`);
            const result = await method.apply(object, args);
            await watcher.reach(`${name}:after`);
            return result;
          } finally {
            watcher.ended();
          }
        };
        const fallback = FAILURES[`${port}.${String(key)}`];
        return fallback === undefined ? await call() : await call().catch(() => fallback);
      };
    },
  });
}
