/** Checks the rules of `tests/invariants.sql` on a database. */

import assert from "node:assert/strict";

interface Queryable {
  query(text: string): Promise<{ rows: unknown[] }>;
}

/** A rule: its name is the comment above its query. */
interface Invariant {
  name: string;
  sql: string;
}

/** Fails with the rule and the rows that break it. */
export async function assertInvariants(sql: Queryable): Promise<void> {
  for (const invariant of await readInvariants()) {
    const { rows } = await sql.query(invariant.sql);
    assert.deepEqual(rows.slice(0, 5), [], `${invariant.name}: ${rows.length} rows break it`);
  }
}

/** Every rule of the file. */
export async function readInvariants(): Promise<Invariant[]> {
  const text = await Deno.readTextFile(new URL("../invariants.sql", import.meta.url));
  const parts = text.split(/^-- (?=[a-z]+: )/m).slice(1);
  return parts.map((part) => {
    const end = part.indexOf("\n");
    return { name: part.slice(0, end), sql: part.slice(end) };
  });
}
