/** Folders in the log: which files it has, which of a folder's are new, and how they come back. */

import { mkdir, open, readdir, readFile, rename, rm, stat } from "node:fs/promises";
import { dirname, join, relative, resolve, sep } from "node:path";
import { decodeBase64, encodeBase64 } from "../bytes.ts";
import type { Json } from "../canonical_json.ts";
import { type Entry, toRecords } from "../entries.ts";
import { sha256Hex } from "../hash_chain.ts";
import { UsageError } from "./home.ts";

const KIND = "file";
/** A file is held in memory while it is encrypted. */
const FILE_BYTES_MAX = 32 * 1024 * 1024;

/** A version of a file, or that it is gone. */
export interface FileVersion {
  folder: string;
  path: string;
  /** SHA-256 of the bytes; null when the file was deleted. */
  hash: string | null;
  base64?: string;
}

/** The newest version of each file, as hashes: folder, then path. */
export type FileIndex = Record<string, Record<string, string>>;

/** Whether a kind of entry is a file's. */
export function isFileKind(kind: string): boolean {
  return kind === KIND;
}

/** Reads a file's version from an entry, and checks that its bytes have its hash. */
export function readVersion({ value }: Entry): { version: FileVersion; bytes: Uint8Array | null } {
  const version = value as unknown as FileVersion;
  const bytes = version.hash === null ? null : decodeBase64(version.base64!);
  if (bytes !== null && sha256Hex(bytes) !== version.hash) {
    throw new Error(`${version.path} does not have its hash`);
  }
  return { version, bytes };
}

/** Notes a version in an index. */
export function noteVersion(index: FileIndex, { folder, path, hash }: FileVersion): void {
  const files = index[folder] ??= {};
  if (hash === null) delete files[path];
  else files[path] = hash;
}

/** The records of a file's version. */
export function versionRecords(version: Omit<FileVersion, "hash">, bytes: Uint8Array | null) {
  const hash = bytes === null ? null : sha256Hex(bytes);
  const content = bytes === null ? {} : { base64: encodeBase64(bytes) };
  const whole = { ...version, hash, ...content } as unknown as Json;
  return { hash, records: toRecords(KIND, whole) };
}

/** Paths of a folder's regular files, with `/` between their parts, in order. Links are passed over. */
export async function listFiles(folder: string, except: string): Promise<string[]> {
  const found: string[] = [];
  const walk = async (directory: string) => {
    for (const entry of await readdir(directory, { withFileTypes: true })) {
      const path = join(directory, entry.name);
      if (resolve(path) === resolve(except)) continue;
      if (entry.isDirectory()) await walk(path);
      else if (entry.isFile()) found.push(relative(folder, path).split(sep).join("/"));
    }
  };
  await walk(folder);
  return found.sort();
}

/** A file's bytes. */
export async function readWhole(path: string): Promise<Uint8Array> {
  const { size } = await stat(path);
  if (size > FILE_BYTES_MAX) {
    throw new UsageError(`${path} has ${size} bytes; at most ${FILE_BYTES_MAX} are taken`);
  }
  return await readFile(path);
}

/** Where a path of the log is in a folder. Throws on one that leads out of it. */
export function pathInside(folder: string, path: string): string {
  const target = resolve(folder, ...path.split("/"));
  if (!target.startsWith(resolve(folder) + sep)) {
    throw new Error(`The log names a file outside of the folder: ${path}`);
  }
  return target;
}

/** Writes a file as a whole. */
export async function writeWhole(path: string, bytes: Uint8Array): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  const temporary = `${path}.${crypto.randomUUID()}.part`;
  try {
    const file = await open(temporary, "wx");
    try {
      await file.writeFile(bytes);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(temporary, path);
  } finally {
    await rm(temporary, { force: true });
  }
}
