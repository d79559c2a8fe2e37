/**
 * `push DIR`: brings the log up to a folder. What the log has is read from the log and from what waits, never from a
 * note of our own that could be behind or ahead: so a push that was killed anywhere is simply pushed again.
 */

import { readFile } from "node:fs/promises";
import { basename, join, resolve } from "node:path";
import type { MemoryRecord } from "../block.ts";
import { encodeText } from "../bytes.ts";
import { Assembler } from "../entries.ts";
import { sha256Hex } from "../hash_chain.ts";
import type { Replicator } from "../replicator.ts";
import { type Cursor, START } from "../verify.ts";
import {
  type FileIndex,
  isFileKind,
  listFiles,
  noteVersion,
  readVersion,
  readWhole,
  versionRecords,
  writeWhole,
} from "./folder.ts";
import { type Home, withReplicator } from "./home.ts";
import type { Terminal } from "./terminal.ts";

/** Blocks that wait before they are sent: what a crash makes us send again, and what is in flight at once. */
const WAITING_MAX = 64;
/** Characters of records that are encrypted together. */
const BATCH_LENGTH = 512 * 1024;

/** What a push did. */
export interface Pushed {
  folder: string;
  /** Files that were new or had changed. */
  files: number;
  deleted: number;
  unchanged: number;
  /** Blocks that were sent, with those that an earlier push had left. */
  blocks: number;
  sequence_number: number;
  merkle_root: string;
}

interface Known {
  /** Up to here the index has everything. */
  cursor: Cursor;
  index: FileIndex;
}

/** Pushes what is new in a folder. The log knows it under `name`. */
export async function push(home: Home, directory: string, name: string | undefined, terminal: Terminal) {
  const folder = name ?? basename(resolve(directory));
  const paths = await listFiles(directory, home.directory);
  return await withReplicator(home, async (log): Promise<Pushed> => {
    // One assembler for both: a file's first parts may have arrived while its last ones wait.
    const assembler = new Assembler(isFileKind);
    const known = await readKnown(home, log, assembler);
    const index = structuredClone(known.index);
    addRecords(index, await log.pending(), assembler);
    const files = index[folder] ??= {};
    const batch = createBatch(log);
    let [changed, blocks] = [0, 0];
    for (const [i, path] of paths.entries()) {
      const bytes = await readWhole(join(directory, ...path.split("/")));
      if (files[path] !== sha256Hex(bytes)) {
        changed++;
        const { hash, records } = versionRecords({ folder, path }, bytes);
        await batch.add(records);
        noteVersion(index, { folder, path, hash });
      }
      if (log.waiting >= WAITING_MAX) blocks += (await log.flush()).sent;
      terminal.progress("encrypted", i + 1, paths.length);
    }
    const present = new Set(paths);
    const gone = Object.keys(files).filter((path) => !present.has(path));
    for (const path of gone) {
      await batch.add(versionRecords({ folder, path }, null).records);
      noteVersion(index, { folder, path, hash: null });
    }
    await batch.end();
    const total = log.waiting;
    const last = await log.flush({ onProgress: (sent) => terminal.progress("sent", sent, total) });
    blocks += last.sent;
    await keepKnown(home, known, { cursor: { sequence: last.sequence, root: last.root }, index }, blocks);
    return {
      folder,
      files: changed,
      deleted: gone.length,
      unchanged: paths.length - changed,
      blocks,
      sequence_number: last.sequence,
      merkle_root: last.root,
    };
  });
}

/** Gathers the records of small files, so that they share blocks. */
function createBatch(log: Replicator) {
  let records: MemoryRecord[] = [];
  let length = 0;
  async function end(): Promise<void> {
    await log.append(records);
    [records, length] = [[], 0];
  }
  return {
    end,
    async add(more: readonly MemoryRecord[]): Promise<void> {
      records.push(...more);
      length += more.reduce((sum, { text }) => sum + text.length, 0);
      if (length >= BATCH_LENGTH) await end();
    },
  };
}

/** What the log has. The note of the last push saves reading the log from its start, and is no more than that. */
async function readKnown(home: Home, log: Replicator, assembler: Assembler): Promise<Known> {
  const known = await readNote(home);
  let { cursor } = known;
  for await (const block of log.pull({ after: known.cursor })) {
    addRecords(known.index, block.records, assembler);
    if (assembler.complete) cursor = { sequence: block.sequence, root: block.root };
  }
  return { cursor, index: known.index };
}

function addRecords(index: FileIndex, records: readonly MemoryRecord[], assembler: Assembler): void {
  for (const record of records) {
    const entry = assembler.add(record);
    if (entry !== undefined) noteVersion(index, readVersion(entry).version);
  }
}

/** Notes what the log has now, unless somebody else has written in between: then the next push reads it. */
async function keepKnown(home: Home, before: Known, now: Known, blocks: number): Promise<void> {
  const alone = now.cursor.sequence === before.cursor.sequence + blocks;
  await writeWhole(pathOfNote(home), encodeText(JSON.stringify(alone ? now : before)));
}

async function readNote(home: Home): Promise<Known> {
  const text = await readFile(pathOfNote(home), "utf8").catch(() => "{}");
  return { cursor: START, index: {}, ...JSON.parse(text) as Partial<Known> };
}

function pathOfNote(home: Home): string {
  return join(home.state, "index.json");
}
