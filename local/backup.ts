/**
 * `deno task backup DIR`: the database, the blobs and the keys of a running service, as of one moment.
 *
 * The database is read first and the blobs after it. A snapshot is confirmed only once its object is stored, and objects
 * never change; so whatever the rows name is still there to be copied. The other way round, a snapshot that is confirmed
 * in between would have its row and not its bytes.
 */

import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { dumpDatabase, type NamedBlob } from "./backup_database.ts";
import {
  blobsOfDirectory,
  blobsOfStorage,
  copyBlobs,
  copyFile,
  countMissing,
  listBackups,
  prune,
  readBlobIndex,
  writeBlobIndex,
  writeManifest,
} from "./backup_files.ts";
import { findRunningStack } from "./data_dir.ts";
import { exists, syncDirectory } from "./files.ts";
import { print, printError } from "./print.ts";

const USAGE = "Usage: deno task backup DIR [--keep N] [--db URL [--storage https://<ref>.supabase.co]]";
const UNFINISHED = ".unfinished-";

/** What belongs to a run or to the machine, not to the data. */
const NOT_KEPT = ["lock", "stack.json", "postgres_cluster"];

interface Options {
  /** Where backups lie. */
  root: string;
  keep: number | undefined;
  databaseUrl: string;
  dataDir: string;
  /** Origin of the Supabase project whose bucket has the blobs; else they are in the data directory. */
  storage: string | undefined;
}

async function main(): Promise<void> {
  const options = await readOptions();
  try {
    await backUp(options);
  } catch (error) {
    return fail(`There is no new backup. ${error instanceof Error ? error.message : error}`);
  }
  if (options.keep === undefined) return;
  const { backups, blobs } = await prune(options.root, options.keep);
  print(`Removed   ${backups} older backups, ${blobs} blobs that none needs any more`);
}

async function backUp({ root, databaseUrl, dataDir, storage }: Options): Promise<void> {
  const createdAt = new Date().toISOString();
  const name = createdAt.replaceAll(":", "-");
  const [newest] = (await listBackups(root)).slice(-1);
  await Deno.mkdir(root, { recursive: true, mode: 0o700 });
  await removeUnfinished(root);
  const directory = join(root, `${UNFINISHED}${name}`);
  await Deno.mkdir(join(directory, "tables"), { recursive: true, mode: 0o700 });

  const { dump, blobs } = await dumpDatabase(databaseUrl, join(directory, "tables"));
  const bytes = dump.tables.reduce((sum, table) => sum + table.bytes, 0);
  print(`Database  ${dump.tables.length} tables, ${bytes} bytes`);

  const source = sourceOf(dataDir, storage, blobs);
  const known = newest === undefined ? new Map() : await readBlobIndex(root, newest);
  const { index, copied } = await copyBlobs(source, join(root, "blobs"), known);
  const missing = await countMissing(join(root, "blobs"), blobs);
  if (missing > 0) {
    throw new Error(`${missing} of ${blobs.length} confirmed snapshots have no whole blob to copy.`);
  }
  print(`Blobs     ${index.size}, of which ${copied} are new`);
  await writeBlobIndex(directory, index);

  const files = storage === undefined ? await copyFiles(dataDir, join(directory, "files")) : [];
  await writeManifest(directory, { created_at: createdAt, database: dump, files });
  for (const part of ["tables", "."]) await syncDirectory(join(directory, part));
  await Deno.rename(directory, join(root, name));
  await syncDirectory(root);
  print(`Backup    ${join(root, name)}`);
}

function sourceOf(dataDir: string, storage: string | undefined, blobs: readonly NamedBlob[]) {
  return storage === undefined
    ? blobsOfDirectory(join(dataDir, "blobs"))
    : blobsOfStorage(storage.replace(/\/+$/, ""), blobs);
}

/** Copies the keys and secrets of a data directory. */
async function copyFiles(dataDir: string, target: string): Promise<string[]> {
  await Deno.mkdir(target, { mode: 0o700 });
  const names: string[] = [];
  for await (const { name, isFile } of Deno.readDir(dataDir)) {
    if (!isFile || NOT_KEPT.includes(name) || name.endsWith(".tmp")) continue;
    await copyFile(join(dataDir, name), join(target, name));
    names.push(name);
  }
  return names.sort();
}

async function removeUnfinished(root: string): Promise<void> {
  for await (const { name } of Deno.readDir(root)) {
    if (name.startsWith(UNFINISHED)) await Deno.remove(join(root, name), { recursive: true });
  }
}

async function readOptions(): Promise<Options> {
  const { positionals: [root, ...rest], values } = parse();
  const keep = values.keep === undefined ? undefined : Number(values.keep);
  const wrong = keep !== undefined && !(Number.isInteger(keep) && keep >= 1);
  if (root === undefined || rest.length > 0 || wrong) return fail(USAGE);
  if (values.storage !== undefined && values.db === undefined) {
    return fail(`--storage needs --db\n${USAGE}`);
  }
  const dataDir = resolve(Deno.env.get("DATA_DIR") || ".data");
  const databaseUrl = values.db ??
    (await exists(dataDir) ? await findRunningStack(dataDir) : undefined)?.databaseUrl;
  if (databaseUrl === undefined) return fail(`Nothing is running on ${dataDir}. Start it, or name its --db.`);
  return { root: resolve(root), keep, databaseUrl, dataDir, storage: values.storage };
}

function parse() {
  try {
    return parseArgs({
      args: Deno.args,
      allowPositionals: true,
      options: { keep: { type: "string" }, db: { type: "string" }, storage: { type: "string" } },
    });
  } catch (error) {
    return fail(`${error instanceof Error ? error.message : error}\n${USAGE}`);
  }
}

function fail(message: string): never {
  printError(message);
  Deno.exit(1);
}

await main();
