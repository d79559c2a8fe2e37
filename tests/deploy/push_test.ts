/** `supabase db push`, as docs/deploy.md has it, against an empty Postgres; and what Supabase's linter makes of it. */

import assert from "node:assert/strict";
import { describeSchema } from "../support/schema.ts";
import { cloneDatabase, type ClonedDatabase, createEmptyDatabase } from "../support/database.ts";
import { runSupabase } from "../support/supabase_cli.ts";

const SUPABASE = new URL("../../supabase", import.meta.url).pathname;
const STAND_INS = new URL("../support/platform_stand_ins.sql", import.meta.url);

/** As on a project whose REST layer was given everything by mistake: the linter then looks at all of it. */
const EXPOSE_ALL = `
  do $$ begin
    execute format('alter database %I set pgrst.db_schemas = %L', current_database(), 'public, api, app');
  end $$`;

interface Finding {
  level: "ERROR" | "WARN" | "INFO";
  name: string;
  detail: string;
}

/** Runs a test on a database that was pushed to, from a copy of the project: the CLI leaves files in it. */
function afterPush(
  name: string,
  prepare: (sql: ClonedDatabase["sql"]) => Promise<unknown>,
  run: (database: ClonedDatabase, project: string) => Promise<void>,
): void {
  Deno.test({
    name: `db push: ${name}`,
    sanitizeOps: false,
    sanitizeResources: false,
    async fn() {
      const project = await Deno.makeTempDir({ prefix: "agent-state-push-" });
      const database = await createEmptyDatabase();
      try {
        await new Deno.Command("cp", { args: ["-R", SUPABASE, project] }).output();
        await prepare(database.sql);
        const pushed = await push(database.url, project);
        assert.match(pushed, /Finished supabase db push/);
        await run(database, project);
      } finally {
        await database.drop();
        await Deno.remove(project, { recursive: true });
      }
    },
  });
}

async function push(url: string, project: string): Promise<string> {
  const { code, stdout, stderr } = await runSupabase(["db", "push", `--remote=${url}`, "--yes"], project);
  assert.equal(code, 0, stderr);
  return stdout + stderr;
}

async function lint(url: string, project: string): Promise<Finding[]> {
  const args = ["db", "advisors", `--remote=${url}`, "--output-format", "json"];
  const { code, stdout, stderr } = await runSupabase(args, project);
  assert.equal(code, 0, stderr);
  return (JSON.parse(stdout) as { results: Finding[] }).results.filter(({ level }) => level !== "INFO");
}

const nothing = () => Promise.resolve();

afterPush(
  "an empty Postgres gets the schema that the local runner makes, once",
  nothing,
  async (database, project) => {
    const local = await cloneDatabase();
    try {
      assert.equal(await describeSchema(database.sql), await describeSchema(local.sql));
      const versions = "select version, name from supabase_migrations.schema_migrations order by version";
      assert.deepEqual((await database.sql.query(versions)).rows, (await local.sql.query(versions)).rows);
      assert.match(await push(database.url, project), /up to date/);
    } finally {
      await local.drop();
    }
  },
);

afterPush(
  "with the platform's parts there are the bucket and the jobs of the schedule",
  async (sql) => void await sql.query(await Deno.readTextFile(STAND_INS)),
  async ({ sql }) => {
    const buckets = await sql.query("select id, public, file_size_limit::int from storage.buckets");
    assert.deepEqual(buckets.rows, [{ id: "agent-state", public: true, file_size_limit: 524_288 }]);
    const jobs = await sql.query("select count(*)::int as count from cron.job");
    assert.deepEqual(jobs.rows, [{ count: 5 }]);
  },
);

afterPush(
  "Supabase's linter has no error and no warning, and would have",
  (sql) => sql.query(EXPOSE_ALL),
  async ({ url, sql }, project) => {
    assert.deepEqual(await lint(url, project), []);
    await sql.query("create table api.planted (id int); grant select on api.planted to anon");
    await sql.query("create function api.planted() returns int language sql as 'select 1'");
    const names = (await lint(url, project)).map(({ name, level }) => `${level} ${name}`);
    assert.deepEqual(names.toSorted(), [
      "ERROR rls_disabled_in_public",
      "WARN function_search_path_mutable",
    ]);
  },
);
