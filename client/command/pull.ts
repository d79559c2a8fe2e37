/** `pull DIR`: writes the newest version of every file of a folder. Nothing is put in place before all was checked. */

import { mkdir, mkdtemp, readFile, rename, rm } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { Assembler } from "../entries.ts";
import { sha256Hex } from "../hash_chain.ts";
import { isFileKind, pathInside, readVersion, writeWhole } from "./folder.ts";
import { type Home, UsageError, withReplicator } from "./home.ts";
import type { Terminal } from "./terminal.ts";

/** What a pull did. */
export interface Pulled {
  folder: string;
  /** Files that were written. */
  files: number;
  unchanged: number;
  /** Files that are here with other bytes, and were left alone. */
  kept: string[];
  blocks: number;
  sequence_number: number;
}

interface Staged {
  hash: string;
  /** Where its bytes are meanwhile. */
  at: string;
}

/** Pulls a folder of the log into a directory. Files that differ there are kept, unless `force`. */
export async function pull(
  home: Home,
  directory: string,
  options: { folder?: string | undefined; force?: boolean | undefined },
  terminal: Terminal,
): Promise<Pulled> {
  await mkdir(directory, { recursive: true });
  // Beside the target: a rename must not cross file systems.
  const staging = await mkdtemp(join(dirname(resolve(directory)), ".pull-"));
  try {
    const { folders, blocks, last } = await withReplicator(home, async (log) => {
      const total = ((await log.head())?.sequence_number ?? -1) + 1;
      return await stage(
        log.pull(),
        staging,
        (done) => terminal.progress("pulled", done, Math.max(done, total)),
      );
    });
    const folder = chooseFolder(
      folders,
      options.folder ?? basename(resolve(directory)),
      options.folder !== undefined,
    );
    const files = folders.get(folder) ?? new Map<string, Staged>();
    const placed = await place(files, directory, options.force ?? false);
    return { folder, ...placed, blocks, sequence_number: last };
  } finally {
    await rm(staging, { recursive: true, force: true });
  }
}

/** Decrypts the log into `staging`, the newest version of each file. */
async function stage(
  log: ReturnType<import("../replicator.ts").Replicator["pull"]>,
  staging: string,
  report: (blocks: number) => void,
) {
  const folders = new Map<string, Map<string, Staged>>();
  const assembler = new Assembler(isFileKind);
  let [blocks, last, count] = [0, -1, 0];
  for await (const block of log) {
    for (const record of block.records) {
      const entry = assembler.add(record);
      if (entry === undefined) continue;
      const { version: { folder, path, hash }, bytes } = readVersion(entry);
      const files = folders.get(folder) ?? new Map<string, Staged>();
      folders.set(folder, files);
      const before = files.get(path);
      if (before !== undefined) await rm(before.at);
      files.delete(path);
      if (hash === null || bytes === null) continue;
      const at = join(staging, String(count++));
      await writeWhole(at, bytes);
      files.set(path, { hash, at });
    }
    last = block.sequence;
    report(++blocks);
  }
  return { folders, blocks, last };
}

function chooseFolder(folders: Map<string, unknown>, wanted: string, named: boolean): string {
  if (folders.has(wanted)) return wanted;
  const names = [...folders.keys()];
  if (!named && names.length === 1) return names[0]!;
  const there = names.length === 0 ? "none" : names.join(", ");
  throw new UsageError(`The log has no folder ${wanted}. It has: ${there}. Name one with --folder.`);
}

async function place(files: Map<string, Staged>, directory: string, force: boolean) {
  // Every path is judged before the first file is moved.
  const moves = [...files].map(([path, staged]) => ({
    path,
    ...staged,
    target: pathInside(directory, path),
  }));
  const kept: string[] = [];
  let [written, unchanged] = [0, 0];
  for (const { path, hash, at, target } of moves) {
    const present = await readFile(target).catch(() => undefined);
    if (present !== undefined && sha256Hex(present) === hash) unchanged++;
    else if (present !== undefined && !force) kept.push(path);
    else {
      await mkdir(dirname(target), { recursive: true });
      await rename(at, target);
      written++;
    }
  }
  return { files: written, unchanged, kept };
}
