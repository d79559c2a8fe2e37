/** Asking the database how often something is in it. */

import type { World } from "../harness.ts";

/** A count by a query whose only column is `n`. */
export function counter(world: World, sql: string, values: unknown[]): () => Promise<number> {
  return async () => Number((await world.sql.query(sql, values)).rows[0].n);
}
