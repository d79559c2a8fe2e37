/**
 * Applies `supabase/migrations` to a plain Postgres, keeping the history table of the Supabase CLI.
 *
 * A database migrated here can be handed to `supabase db push`, and the other way round. The CLI stores a file
 * split into statements; here the whole file is one element, which it accepts.
 */

import { join } from "node:path";
// @deno-types="npm:@types/pg@8.23.1"
import pg from "pg";

const MIGRATIONS = join(import.meta.dirname!, "../supabase/migrations");

/** Any number will do, as long as it never changes: starters with the same one wait for each other. */
const LOCK_KEY = 7_202_607_311;

const HISTORY = `
  create schema if not exists supabase_migrations;
  create table if not exists supabase_migrations.schema_migrations (
    version text not null primary key,
    statements text[],
    name text
  )`;

interface Migration {
  file: string;
  version: string;
  name: string;
}

/** Applies the files of `dir` that the database does not have yet, in order. Returns their names. */
export async function migrate(url: string, dir: string = MIGRATIONS): Promise<string[]> {
  return await applyAll(url, dir, await listMigrations(dir));
}

/** Applies exactly these versions. Throws, before anything is done, when a file of one is missing. */
export async function migrateTo(url: string, versions: readonly string[]): Promise<void> {
  const migrations = await listMigrations(MIGRATIONS);
  const missing = versions.find((version) => !migrations.some((migration) => migration.version === version));
  if (missing !== undefined) throw new Error(`Migration ${missing} is not in this clone: it is too old.`);
  await applyAll(url, MIGRATIONS, migrations.filter(({ version }) => versions.includes(version)));
}

/** Versions of this clone's migrations, in order. */
export async function listVersions(): Promise<string[]> {
  return (await listMigrations(MIGRATIONS)).map(({ version }) => version);
}

async function applyAll(url: string, dir: string, migrations: readonly Migration[]): Promise<string[]> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 10_000 });
  // A connection that breaks also fails the query that is waiting on it; the event says nothing more.
  client.on("error", () => {});
  await client.connect();
  try {
    await client.query("select pg_advisory_lock($1)", [LOCK_KEY]);
    await client.query(HISTORY);
    const { rows } = await client.query<{ version: string }>(
      "select version from supabase_migrations.schema_migrations",
    );
    const applied = new Set(rows.map((row) => row.version));
    const pending = migrations.filter((migration) => !applied.has(migration.version));
    for (const migration of pending) {
      await apply(client, migration, await Deno.readTextFile(join(dir, migration.file)));
    }
    return pending.map((migration) => migration.file);
  } finally {
    // Ending the session releases the lock.
    await client.end().catch(() => {});
  }
}

async function listMigrations(dir: string): Promise<Migration[]> {
  const migrations: Migration[] = [];
  for await (const { name: file } of Deno.readDir(dir)) {
    const match = /^([0-9]{14})_(.+)\.sql$/.exec(file);
    if (match !== null) migrations.push({ file, version: match[1]!, name: match[2]! });
  }
  migrations.sort((a, b) => a.version < b.version ? -1 : 1);
  for (const [index, { file, version }] of migrations.entries()) {
    const next = migrations[index + 1];
    if (next?.version === version) throw new Error(`${file} and ${next.file} have the same version`);
  }
  return migrations;
}

/** Applies one file and records it, both or neither. */
async function apply(client: pg.Client, { file, version, name }: Migration, text: string): Promise<void> {
  await client.query("reset all");
  await client.query("begin");
  try {
    // Without values, pg sends the text as one simple query, which may hold many statements.
    await client.query(text);
    await client.query(
      "insert into supabase_migrations.schema_migrations (version, statements, name) values ($1, $2, $3)",
      [version, [text], name],
    );
    await client.query("commit");
  } catch (error) {
    await client.query("rollback").catch(() => {});
    throw new Error(describe(file, text, error), { cause: error });
  }
}

function describe(file: string, text: string, error: unknown): string {
  if (!(error instanceof pg.DatabaseError)) {
    return `${file}: ${error instanceof Error ? error.message : error}`;
  }
  const position = Number(error.position);
  // Postgres counts characters, not UTF-16 units.
  const line = position > 0 ? `:${Array.from(text).slice(0, position - 1).join("").split("\n").length}` : "";
  const more = [error.detail, error.hint, error.where].filter((part) => part !== undefined);
  return [`${file}${line}: ${error.message} (${error.code})`, ...more].join("\n  ");
}
