/** Checks the rules of `tests/invariants.sql` on a database. */

const FILE = new URL("../tests/invariants.sql", import.meta.url);

interface Queryable {
  query(text: string): Promise<{ rows: unknown[] }>;
}

/** A rule: its name is the comment above its query. */
export interface Invariant {
  name: string;
  sql: string;
}

/** Every rule of the file. */
export async function readInvariants(): Promise<Invariant[]> {
  const parts = (await Deno.readTextFile(FILE)).split(/^-- (?=[a-z]+: )/m).slice(1);
  return parts.map((part) => {
    const end = part.indexOf("\n");
    return { name: part.slice(0, end), sql: part.slice(end) };
  });
}

/** Names the rules that rows break, with how many. Row contents stay where they are. */
export async function findBroken(sql: Queryable): Promise<string[]> {
  const broken: string[] = [];
  for (const { name, sql: rule } of await readInvariants()) {
    const { rows } = await sql.query(rule);
    if (rows.length > 0) broken.push(`${name} (${rows.length} rows)`);
  }
  return broken;
}
