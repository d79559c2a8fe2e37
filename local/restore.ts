/**
 * `deno task restore DIR`: puts a backup into an empty data directory, or into the empty Postgres of DATABASE_URL.
 *
 * The blobs come first and the rows last, in one transaction; so a restore that is killed leaves rows without bytes at no
 * moment, and is run again.
 */

import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { findDamage, loadDatabase, NAMED_BLOBS, type NamedBlob, withClient } from "./backup_database.ts";
import {
  blobsOfDirectory,
  type BlobSource,
  copyBlobs,
  copyFile,
  countMissing,
  listBackups,
  type Manifest,
  readBlobIndex,
  readManifest,
} from "./backup_files.ts";
import { lockDataDir } from "./data_dir.ts";
import { findBroken } from "./invariants.ts";
import { listVersions, migrate, migrateTo } from "./migrate.ts";
import { startPostgres } from "./postgres.ts";
import { print, printError } from "./print.ts";

const USAGE = "Usage: deno task restore DIR [--at BACKUP]";

async function main(): Promise<void> {
  const { root, at } = readArguments();
  const dataDir = resolve(Deno.env.get("DATA_DIR") || ".data");
  await using parts = new AsyncDisposableStack();
  try {
    const name = await choose(root, at);
    const manifest = await readManifest(root, name);
    await requireSound(root, name, manifest);
    const lock = await lockDataDir(dataDir);
    parts.defer(() => lock.release());
    const url = Deno.env.get("DATABASE_URL") || await startDatabase(dataDir, parts);
    await restore(root, name, manifest, dataDir, url);
  } catch (error) {
    await parts.disposeAsync();
    printError(`Nothing can be served yet. ${error instanceof Error ? error.message : error}`);
    Deno.exit(1);
  }
}

async function restore(
  root: string,
  name: string,
  manifest: Manifest,
  dataDir: string,
  url: string,
): Promise<void> {
  await requireEmpty(url);
  const { database, files, created_at } = manifest;
  const wanted = await readBlobIndex(root, name);
  const target = join(dataDir, "blobs");
  const { index } = await copyBlobs(only(wanted, join(root, "blobs")), target, new Map());
  const spoiled = [...wanted].filter(([path, hash]) => index.get(path) !== hash).length;
  if (spoiled > 0) {
    throw new Error(`${spoiled} of ${wanted.size} blobs of the backup are missing or damaged.`);
  }
  for (const file of files) await copyFile(join(root, name, "files", file), join(dataDir, file));
  print(`Blobs     ${wanted.size}`);

  await migrateTo(url, database.migrations);
  await loadDatabase(url, join(root, name, "tables"), database);
  const newer = await migrate(url);
  print(
    `Database  ${database.tables.length} tables${newer.length > 0 ? `, ${newer.length} migrations` : ""}`,
  );

  await withClient(url, async (client) => {
    const { rows } = await client.query<NamedBlob>(NAMED_BLOBS);
    const missing = await countMissing(target, rows);
    if (missing > 0) throw new Error(`${missing} confirmed snapshots have no blob.`);
    const broken = await findBroken(client);
    if (broken.length > 0) throw new Error(`What must hold does not: ${broken.join("; ")}`);
    print(`Checked   ${rows.length} snapshots have their bytes, and every invariant holds`);
  });
  print(`Restored  ${dataDir} as of ${created_at}`);
}

/** Finds what is wrong with a backup before anything is changed. */
async function requireSound(root: string, name: string, { database }: Manifest): Promise<void> {
  const damaged = await findDamage(join(root, name, "tables"), database);
  if (damaged !== undefined) throw new Error(`${name} is damaged: ${damaged} is not what was written.`);
  const versions = await listVersions();
  const missing = database.migrations.find((version) => !versions.includes(version));
  if (missing !== undefined) {
    throw new Error(
      `The backup is newer than this clone, which lacks migration ${missing}: update it first.`,
    );
  }
}

async function requireEmpty(url: string): Promise<void> {
  const used = await withClient(url, async (client) => {
    const { rows } = await client.query("select to_regclass('app.accounts') is not null as migrated");
    if (!rows[0].migrated) return false;
    const some = await client.query("select exists (select from app.accounts) as used");
    return some.rows[0].used as boolean;
  });
  if (used) throw new Error("The database already has accounts in it; restore into an empty one.");
}

/** The blobs of one backup, out of those that it shares with others. */
function only(wanted: ReadonlyMap<string, string>, root: string): BlobSource {
  return {
    async *list() {
      yield* wanted.keys();
    },
    read: blobsOfDirectory(root).read,
  };
}

async function choose(root: string, at: string | undefined): Promise<string> {
  const names = await listBackups(root);
  const name = at ?? names.at(-1);
  if (name === undefined || !names.includes(name)) {
    throw new Error(`${root} has ${at === undefined ? "no backup" : `no backup ${at}`}.`);
  }
  return name;
}

async function startDatabase(dataDir: string, parts: AsyncDisposableStack): Promise<string> {
  const postgres = await startPostgres({ dataDir, log: print });
  parts.defer(() => postgres.stop());
  return postgres.url;
}

function readArguments(): { root: string; at: string | undefined } {
  try {
    const { positionals: [root, ...rest], values } = parseArgs({
      args: Deno.args,
      allowPositionals: true,
      options: { at: { type: "string" } },
    });
    if (root === undefined || rest.length > 0) throw new Error("Name the directory of the backups.");
    return { root: resolve(root), at: values.at };
  } catch (error) {
    printError(`${error instanceof Error ? error.message : error}\n${USAGE}`);
    Deno.exit(1);
  }
}

await main();
