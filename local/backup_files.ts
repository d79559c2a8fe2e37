/**
 * How backups lie in their directory:
 *
 *     blobs/                       objects, shared by all backups; they never change
 *     2026-11-21T03-00-00Z/        one backup, there only when it is whole
 *       manifest.json              what it holds, and the migrations it was made with
 *       tables/<name>.copy         one for each table
 *       files/<name>               keys and secrets of DATA_DIR
 *       blobs.sha256               the objects it needs: `cd blobs && sha256sum -c ../2026-…Z/blobs.sha256`
 */

import { createHash } from "node:crypto";
import { dirname, join, relative } from "node:path";
import type { Dump, NamedBlob } from "./backup_database.ts";
import { pathOf } from "./blob_files.ts";
import { exists, syncDirectory, writeDurably, writeFileAtomically } from "./files.ts";

const FORMAT = 1;
const NAME = /^\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(?:\.\d+)?Z$/;
const COPIES_AT_ONCE = 8;
const DOWNLOAD_TIMEOUT_MS = 30_000;

/** What a backup holds. */
export interface Manifest {
  format: number;
  created_at: string;
  database: Dump;
  files: string[];
}

/** From a blob's file, below its root, to the SHA-256 of its bytes in hex. */
export type BlobIndex = Map<string, string>;

/** Where blobs come from: paths below a root, and the bytes of each; undefined when it is gone. */
export interface BlobSource {
  list(): AsyncIterable<string>;
  read(path: string): Promise<Uint8Array | undefined>;
}

/** Names of the whole backups in a directory, oldest first. */
export async function listBackups(root: string): Promise<string[]> {
  const names: string[] = [];
  if (await exists(root)) {
    for await (const { name } of Deno.readDir(root)) if (NAME.test(name)) names.push(name);
  }
  return names.sort();
}

/** Reads what a backup says of itself. */
export async function readManifest(root: string, name: string): Promise<Manifest> {
  const manifest = JSON.parse(await Deno.readTextFile(join(root, name, "manifest.json"))) as Manifest;
  if (manifest.format !== FORMAT) {
    throw new Error(`${name} has format ${manifest.format}; this is ${FORMAT}.`);
  }
  return manifest;
}

/** Writes what a backup says of itself, as its last file. */
export async function writeManifest(directory: string, manifest: Omit<Manifest, "format">): Promise<void> {
  const text = JSON.stringify({ format: FORMAT, ...manifest }, undefined, 2);
  await writeFileAtomically(join(directory, "manifest.json"), `${text}\n`);
}

/** Reads which objects a backup needs. */
export async function readBlobIndex(root: string, name: string): Promise<BlobIndex> {
  const text = await Deno.readTextFile(join(root, name, "blobs.sha256"));
  const lines = text.split("\n").filter(Boolean);
  return new Map(lines.map((line) => [line.slice(66), line.slice(0, 64)]));
}

/** Writes which objects a backup needs, as `sha256sum` has it. */
export async function writeBlobIndex(directory: string, index: BlobIndex): Promise<void> {
  const lines = [...index].sort().map(([path, hash]) => `${hash}  ${path}\n`);
  await writeFileAtomically(join(directory, "blobs.sha256"), lines.join(""));
}

/** The files below a blob store's root. */
export function blobsOfDirectory(root: string): BlobSource {
  return {
    async *list() {
      if (await exists(root)) yield* walk(root, root);
    },
    read: (path) =>
      Deno.readFile(join(root, path)).catch((error) => {
        // The sweep may have been quicker.
        if (error instanceof Deno.errors.NotFound) return undefined;
        throw error;
      }),
  };
}

/** The objects of these names in a public bucket of Supabase Storage. */
export function blobsOfStorage(origin: string, names: readonly NamedBlob[]): BlobSource {
  const byPath = new Map(
    names.map(({ object_name }) => [relative("/", pathOf("/", object_name)), object_name]),
  );
  return {
    async *list() {
      yield* byPath.keys();
    },
    async read(path) {
      const url = `${origin}/storage/v1/object/public/agent-state/${byPath.get(path)!}`;
      const response = await fetch(url, { signal: AbortSignal.timeout(DOWNLOAD_TIMEOUT_MS) });
      if (response.ok) return await response.bytes();
      await response.body?.cancel();
      if (response.status === 404 || response.status === 400) return undefined;
      throw new Error(`Storage answers ${response.status} for an object`);
    },
  };
}

/** Copies what `target` lacks. `known` are blobs that an earlier, whole backup vouches for. */
export async function copyBlobs(
  source: BlobSource,
  target: string,
  known: BlobIndex,
): Promise<{ index: BlobIndex; copied: number }> {
  const index: BlobIndex = new Map();
  const directories = new Set<string>();
  let copied = 0;
  async function copy(path: string): Promise<void> {
    const to = join(target, path);
    const hash = known.get(path);
    if (hash !== undefined && await exists(to)) return void index.set(path, hash);
    const bytes = await source.read(path);
    if (bytes === undefined) return;
    await writeBlob(to, bytes);
    for (let each = dirname(to); each.length >= target.length; each = dirname(each)) directories.add(each);
    index.set(path, createHash("sha256").update(bytes).digest("hex"));
    copied++;
  }
  await Deno.mkdir(target, { recursive: true, mode: 0o700 });
  let running: Promise<void>[] = [];
  for await (const path of source.list()) {
    running.push(copy(path));
    if (running.length < COPIES_AT_ONCE) continue;
    await Promise.all(running);
    running = [];
  }
  await Promise.all(running);
  for (const directory of directories) await syncDirectory(directory);
  return { index, copied };
}

/** Counts the confirmed snapshots whose object is not there, or is cut off. */
export async function countMissing(root: string, blobs: readonly NamedBlob[]): Promise<number> {
  let missing = 0;
  for (const { object_name, byte_size } of blobs) {
    const info = await Deno.stat(pathOf(root, object_name)).catch(() => undefined);
    if (info?.size !== byte_size) missing++;
  }
  return missing;
}

/** Removes all backups but the newest `keep`, then the objects that none of those needs. */
export async function prune(root: string, keep: number): Promise<{ backups: number; blobs: number }> {
  const names = await listBackups(root);
  const old = names.slice(0, Math.max(0, names.length - keep));
  for (const name of old) await Deno.remove(join(root, name), { recursive: true });
  if (old.length === 0) return { backups: 0, blobs: 0 };
  const needed = new Set<string>();
  for (const name of names.slice(old.length)) {
    for (const path of (await readBlobIndex(root, name)).keys()) needed.add(path);
  }
  let blobs = 0;
  for await (const path of blobsOfDirectory(join(root, "blobs")).list()) {
    if (needed.has(path)) continue;
    await Deno.remove(join(root, "blobs", path));
    blobs++;
  }
  return { backups: old.length, blobs };
}

/** Copies a file of whatever bytes; a crash leaves all of it or nothing. */
export async function copyFile(from: string, to: string): Promise<void> {
  await writeBlob(to, await Deno.readFile(from));
  await syncDirectory(dirname(to));
}

async function writeBlob(path: string, bytes: Uint8Array): Promise<void> {
  await Deno.mkdir(dirname(path), { recursive: true });
  const temporary = `${path}.${crypto.randomUUID()}.tmp`;
  {
    using file = await Deno.open(temporary, { write: true, createNew: true, mode: 0o600 });
    await writeDurably(file, bytes);
  }
  await Deno.rename(temporary, path);
}

async function* walk(root: string, directory: string): AsyncGenerator<string> {
  for await (const { name, isDirectory } of Deno.readDir(directory)) {
    if (name === ".tmp" || name.endsWith(".tmp")) continue;
    const path = join(directory, name);
    if (isDirectory) yield* walk(root, path);
    else yield relative(root, path);
  }
}
