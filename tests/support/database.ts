/** A database of its own for each test file, cloned from a template that holds all migrations. */

// @deno-types="npm:@types/pg@8.23.1"
import pg from "pg";

/** The database that the clones are copies of; the runner makes it. */
export const TEMPLATE = "agent_state_template";

const CLONE_TRIES = 20;

/** A cloned database, reached as a superuser. */
export interface ClonedDatabase {
  url: string;
  sql: {
    // deno-lint-ignore no-explicit-any
    query<Row extends pg.QueryResultRow = any>(
      text: string,
      values?: unknown[],
    ): Promise<pg.QueryResult<Row>>;
  };
  drop(): Promise<void>;
}

/** Makes a fresh copy of the template in the Postgres of TEST_DATABASE_URL. */
export async function cloneDatabase(): Promise<ClonedDatabase> {
  const maintenance = requireMaintenance();
  const name = `t_${crypto.randomUUID().replaceAll("-", "")}`;
  for (let tries = 1;; tries++) {
    try {
      await execute(maintenance, `create database ${name} template ${TEMPLATE}`);
      break;
    } catch (error) {
      // 55006: the source database is being accessed by other users.
      if ((error as pg.DatabaseError).code !== "55006" || tries === CLONE_TRIES) throw error;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
  return openDatabase(maintenance, name);
}

/** Makes a database without any migration in the Postgres of TEST_DATABASE_URL. */
export async function createEmptyDatabase(): Promise<ClonedDatabase> {
  const maintenance = requireMaintenance();
  const name = `t_${crypto.randomUUID().replaceAll("-", "")}`;
  await execute(maintenance, `create database ${name} template template0`);
  return openDatabase(maintenance, name);
}

function requireMaintenance(): string {
  const url = Deno.env.get("TEST_DATABASE_URL");
  if (!url) throw new Error("TEST_DATABASE_URL is not set: run the tests with deno task test");
  return url;
}

function openDatabase(maintenance: string, name: string): ClonedDatabase {
  const url = withDatabase(maintenance, name);
  const pool = new pg.Pool({ connectionString: url, max: 4 });
  // Tests end connections on purpose.
  pool.on("error", () => {});
  return {
    url,
    sql: { query: (text, values) => pool.query(text, values) },
    async drop() {
      await pool.end();
      await execute(maintenance, `drop database if exists ${name} with (force)`);
    },
  };
}

/** Makes the template anew: `migrate` gets the URL of the empty database. */
export async function makeTemplate(
  maintenance: string,
  migrate: (url: string) => Promise<unknown>,
): Promise<void> {
  await dropTemplate(maintenance);
  await execute(maintenance, `create database ${TEMPLATE}`);
  await migrate(withDatabase(maintenance, TEMPLATE));
  // A template that someone is connected to cannot be cloned.
  await execute(maintenance, `alter database ${TEMPLATE} with allow_connections false`);
}

/** Removes the template. */
export async function dropTemplate(maintenance: string): Promise<void> {
  await execute(maintenance, `drop database if exists ${TEMPLATE} with (force)`);
}

/** Returns the same connection string for another database. */
export function withDatabase(url: string, name: string): string {
  const changed = new URL(url);
  changed.pathname = `/${name}`;
  return changed.href;
}

async function execute(url: string, statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  client.on("error", () => {});
  await client.connect();
  try {
    await client.query(statement);
  } finally {
    await client.end();
  }
}
