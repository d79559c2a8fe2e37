/** A migrated database for a tool, gone when the tool is done: in TEST_DATABASE_URL's Postgres or in one of its own. */

import { migrate } from "../../local/migrate.ts";
import { startPostgres } from "../../local/postgres.ts";
import { printError } from "../../local/print.ts";
// @deno-types="npm:@types/pg@8.23.1"
import pg from "pg";
import { withDatabase } from "./database.ts";

/** Gives `work` the address of a new, migrated database. */
export async function withMigratedDatabase<T>(work: (url: string) => Promise<T>): Promise<T> {
  const given = Deno.env.get("TEST_DATABASE_URL");
  if (given) return await withDatabaseOf(given, work);

  const dataDir = await Deno.makeTempDir({ prefix: "agent-state-tool-" });
  // Root runs Postgres as another user, who must get in.
  await Deno.chmod(dataDir, 0o711);
  try {
    const postgres = await startPostgres({ dataDir, fsync: false, log: printError });
    try {
      return await withDatabaseOf(postgres.url, work);
    } finally {
      await postgres.destroy();
    }
  } finally {
    await Deno.remove(dataDir, { recursive: true });
  }
}

async function withDatabaseOf<T>(maintenance: string, work: (url: string) => Promise<T>): Promise<T> {
  const name = `tool_${crypto.randomUUID().replaceAll("-", "")}`;
  const client = new pg.Client({ connectionString: maintenance });
  client.on("error", () => {});
  await client.connect();
  try {
    await client.query(`create database ${name}`);
    const url = withDatabase(maintenance, name);
    await migrate(url);
    return await work(url);
  } finally {
    await client.query(`drop database if exists ${name} with (force)`);
    await client.end();
  }
}
