/** The migration runner, on the oldest and the newest Postgres that we support. */

import assert from "node:assert/strict";
// @deno-types="npm:@types/pg@8.23.1"
import pg from "pg";
import { migrate } from "../../local/migrate.ts";
import { POSTGRES_VERSION, startPostgres } from "../../local/postgres.ts";

const MIGRATIONS = new URL("../../supabase/migrations", import.meta.url).pathname;

for (const version of ["15.18.0-beta.17", POSTGRES_VERSION]) {
  Deno.test(`migrate: Postgres ${version.split(".")[0]} takes every file once, with the CLI's history`, () =>
    withPostgres(version, async (url) => {
      const files = Array.from(Deno.readDirSync(MIGRATIONS), ({ name }) => name).sort();
      // Two starters at once: one does the work, the other finds nothing left.
      const [one, other] = await Promise.all([migrate(url), migrate(url)]);
      assert.deepEqual([...one, ...other], files);
      assert.deepEqual(await migrate(url), []);

      const history = await query(
        url,
        "select version, name, statements from supabase_migrations.schema_migrations order by version",
      );
      assert.deepEqual(history.map((row) => `${row.version}_${row.name}.sql`), files);
      assert.deepEqual(history[0]!.statements, [await Deno.readTextFile(`${MIGRATIONS}/${files[0]}`)]);
    }));
}

Deno.test("migrate: a broken file is named with its line, and nothing of it stays", () =>
  withPostgres(POSTGRES_VERSION, async (url) => {
    const dir = await Deno.makeTempDir();
    try {
      await Deno.writeTextFile(`${dir}/20260101000000_good.sql`, "create table good (id int);");
      const text = "-- π 𝛑\ncreate table half (id int);\n\nselect nonsense;\n";
      await Deno.writeTextFile(`${dir}/20260101000001_bad.sql`, text);
      await assert.rejects(
        migrate(url, dir),
        /20260101000001_bad\.sql:4: column "nonsense" does not exist \(42703\)/,
      );
      const [row] = await query(
        url,
        "select to_regclass('good') as good, to_regclass('half') as half, " +
          "(select count(*)::int from supabase_migrations.schema_migrations) as applied",
      );
      assert.deepEqual(row, { good: "good", half: null, applied: 1 });
    } finally {
      await Deno.remove(dir, { recursive: true });
    }
  }));

async function withPostgres(version: string, run: (url: string) => Promise<void>): Promise<void> {
  const dataDir = await Deno.makeTempDir();
  await Deno.chmod(dataDir, 0o711);
  const postgres = await startPostgres({ dataDir, version, fsync: false });
  try {
    await run(postgres.url);
  } finally {
    await postgres.destroy();
    await Deno.remove(dataDir, { recursive: true });
  }
}

async function query(url: string, text: string): Promise<pg.QueryResultRow[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query(text)).rows;
  } finally {
    await client.end();
  }
}
