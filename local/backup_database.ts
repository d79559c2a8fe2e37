/**
 * Our tables as files, and files as our tables: binary COPY, all of one moment.
 *
 * `pg_dump` would do, but the embedded Postgres comes without it, and one of another version refuses. The structure is
 * not in the files: the migrations make it, and the backup says which of them it had.
 */

import { createHash } from "node:crypto";
import { join } from "node:path";
// @deno-types="npm:@types/pg@8.23.1"
import pg from "pg";
import { copyIn, copyOut } from "./copy.ts";

/** A table's file: `<name>.copy`. */
export interface TableFile {
  name: string;
  columns: string[];
  bytes: number;
  sha256: string;
}

/** What a dump holds besides the tables' files. */
export interface Dump {
  postgres: string;
  /** Versions of the migrations that had been applied. */
  migrations: string[];
  tables: TableFile[];
  sequences: { name: string; value: string }[];
}

/** A confirmed snapshot's object. */
export interface NamedBlob {
  object_name: string;
  byte_size: number;
}

/** About as much of a table is held in memory at once. */
const PART_BYTES = 16 * 1024 * 1024;

/** A binary COPY begins with its signature, its flags and the length of what follows them, and ends with an int16 -1. */
const HEADER_BYTES = 19;
const TRAILER = new Uint8Array([0xff, 0xff]);

/** The tables, with how many pages each has and how many of them, with what is stored beside them, make a part of $1. */
const TABLES = `
  select quote_ident(c.relname) as name,
         array_agg(quote_ident(a.attname) order by a.attnum) as columns,
         pg_relation_size(c.oid) / current_setting('block_size')::int as pages,
         greatest(1, pg_relation_size(c.oid) / current_setting('block_size')::int
           * $1::int / greatest(1, pg_table_size(c.oid))) as pages_of_part
    from pg_class c join pg_attribute a on a.attrelid = c.oid
   where c.relnamespace = 'app'::regnamespace and c.relkind = 'r'
     and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
   group by c.oid
   order by c.relname`;

interface Table {
  name: string;
  columns: string[];
  pages: string;
  pages_of_part: string;
}

const SEQUENCES = `
  select quote_ident(sequencename) as name, last_value::text as value
    from pg_sequences where schemaname = 'app' and last_value is not null order by 1`;

/** What every confirmed snapshot needs of the blob store. */
export const NAMED_BLOBS =
  "select object_name, byte_size::int from app.snapshots where status = 'confirmed' order by object_name";

/** Connects for the time of `work`. */
export async function withClient<T>(url: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 10_000 });
  client.on("error", () => {});
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end().catch(() => {});
  }
}

/** Writes every table of schema `app`, as it is at one moment, into a directory. */
export async function dumpDatabase(
  url: string,
  directory: string,
  partBytes = PART_BYTES,
): Promise<{ dump: Dump; blobs: NamedBlob[] }> {
  return await withClient(url, async (client) => {
    await client.query("begin isolation level repeatable read read only");
    const version = await client.query<{ server_version: string }>("show server_version");
    const migrations = await client.query<{ version: string }>(
      "select version from supabase_migrations.schema_migrations order by version",
    );
    const tables: TableFile[] = [];
    const found = (await client.query<Table>(TABLES, [partBytes])).rows;
    // Nobody may change their structure meanwhile.
    await client.query(`lock table ${listNames(found)} in access share mode`);
    for (const table of found) {
      const { name, columns } = table;
      tables.push({ name, columns, ...await dumpTable(client, table, join(directory, `${name}.copy`)) });
    }
    const blobs = (await client.query<NamedBlob>(NAMED_BLOBS)).rows;
    // A sequence is never behind what was just read: it does not go back.
    const sequences = (await client.query<{ name: string; value: string }>(SEQUENCES)).rows;
    await client.query("commit");
    const dump = {
      postgres: version.rows[0]!.server_version,
      migrations: migrations.rows.map((row) => row.version),
      tables,
      sequences,
    };
    return { dump, blobs };
  });
}

/** Puts a dump into a database whose migrations are exactly those of the dump: all of it or nothing. */
export async function loadDatabase(url: string, directory: string, dump: Dump): Promise<void> {
  await withClient(url, async (client) => {
    await client.query("begin");
    // What was consistent when it was read stays so: no trigger has to run, no reference to be looked up.
    await client.query("set local session_replication_role = replica");
    // Migrations may have put rows into their tables.
    await client.query(`truncate ${listNames(dump.tables)}`);
    for (const { name, columns } of dump.tables) {
      const statement = `copy app.${name} (${columns.join()}) from stdin (format binary)`;
      await copyIn(client, statement, await openStream(join(directory, `${name}.copy`)));
    }
    for (const { name, value } of dump.sequences) {
      await client.query("select setval($1::regclass, $2::bigint)", [`app.${name}`, value]);
    }
    await client.query("commit");
    await client.query("analyze");
  });
}

function listNames(tables: readonly { name: string }[]): string {
  return tables.map(({ name }) => `app.${name}`).join(", ");
}

/** Names the first file that is not what the dump says, or nothing. */
export async function findDamage(directory: string, { tables }: Dump): Promise<string | undefined> {
  for (const { name, bytes, sha256 } of tables) {
    const file = `${name}.copy`;
    const found = await hashFile(join(directory, file)).catch(() => undefined);
    if (found === undefined || found.bytes !== bytes || found.sha256 !== sha256) return file;
  }
  return undefined;
}

/** Length and SHA-256 (hex) of a file. */
export async function hashFile(path: string): Promise<{ bytes: number; sha256: string }> {
  const hash = createHash("sha256");
  let bytes = 0;
  for await (const chunk of await openStream(path)) {
    hash.update(chunk);
    bytes += chunk.length;
  }
  return { bytes, sha256: hash.digest("hex") };
}

async function openStream(path: string): Promise<ReadableStream<Uint8Array>> {
  return (await Deno.open(path)).readable;
}

/** Writes a table, part by part, as one binary COPY. */
async function dumpTable(
  client: pg.Client,
  { name, columns, pages, pages_of_part }: Table,
  path: string,
): Promise<{ bytes: number; sha256: string }> {
  const hash = createHash("sha256");
  let bytes = 0;
  using file = await Deno.open(path, { write: true, createNew: true, mode: 0o600 });
  async function write(part: Uint8Array): Promise<void> {
    hash.update(part);
    bytes += part.length;
    for (let rest = part; rest.length > 0;) rest = rest.subarray(await file.write(rest));
  }
  const [end, step] = [Number(pages), Number(pages_of_part)];
  // A table without a page is one part too: its header is what is written.
  for (let page = 0; page === 0 || page < end; page += step) {
    const part = await copyOut(
      client,
      `copy (select ${columns.join()} from app.${name} where ctid >= '(${page},0)' and ctid < '(${
        page + step
      },0)')
         to stdout (format binary)`,
    );
    await write(part.subarray(page === 0 ? 0 : HEADER_BYTES, part.length - TRAILER.length));
  }
  await write(TRAILER);
  await file.sync();
  return { bytes, sha256: hash.digest("hex") };
}
