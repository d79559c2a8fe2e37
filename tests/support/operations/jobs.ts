/** Scheduled jobs. What they do is tried by their own tests; here it is who may start them. */

import { CRON_SECRET } from "../everything.ts";
import type { Operation } from "./mod.ts";

function job(path: string, name: string): Operation {
  return {
    route: `POST ${path}`,
    name,
    opens: "cron secret",
    status: 200,
    prepare: () => Promise.resolve({ path, options: { token: CRON_SECRET }, canaries: [], owned: [] }),
  };
}

export const JOB_OPERATIONS: Operation[] = [
  job("/retention/purge", "purge what has been kept long enough"),
  job("/lifecycle/dispatch", "write to those whose time it is"),
];
