/** Checks the rules of `tests/invariants.sql` on a database. */

import assert from "node:assert/strict";
import { readInvariants } from "../../local/invariants.ts";

interface Queryable {
  query(text: string): Promise<{ rows: unknown[] }>;
}

/** Fails with the rule and the rows that break it. */
export async function assertInvariants(sql: Queryable): Promise<void> {
  for (const invariant of await readInvariants()) {
    const { rows } = await sql.query(invariant.sql);
    assert.deepEqual(rows.slice(0, 5), [], `${invariant.name}: ${rows.length} rows break it`);
  }
}
