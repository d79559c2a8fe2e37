/** Where a request's time goes, in a `Server-Timing` header: only when the operator has switched it on. */

import { endTime, startTime } from "hono/timing";
import type { AppContext } from "../context.ts";

/** Runs `work` under a name. Costs nothing while timing is off. */
export async function timed<T>(c: AppContext, name: string, work: () => T | Promise<T>): Promise<T> {
  // On the way of every request: `c.var` would gather all variables each time, `c.get` looks one up.
  if (!c.get("settings").serverTiming) return await work();
  startTime(c, name);
  try {
    return await work();
  } finally {
    endTime(c, name);
  }
}
