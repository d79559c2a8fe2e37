/** Checks of what the service shows. Pure: they take what was fetched, or written to a file, and ask nobody. */

import { decodeBase64 } from "./bytes.ts";
import { IntegrityError } from "./errors.ts";
import { EMPTY_ROOT, nextRoot, sha256Hex } from "./hash_chain.ts";
import type { LineageEntry, LogChunk } from "./wire.ts";

export {
  type AuditExport,
  type AuditHead,
  type ChainVerdict,
  verifyChain as verifyAudit,
} from "./audit_chain.ts";

/** What a check found. `reason` says what is wrong at `brokenAt`. */
export interface Verdict {
  valid: boolean;
  /** Entries that were found good. */
  checked: number;
  brokenAt?: number;
  reason?: string;
}

/** A place in a log: the number of its last block and the root after it. */
export interface Cursor {
  sequence: number;
  root: string;
}

/** Stands before the first block of a log. */
export const START: Cursor = { sequence: -1, root: EMPTY_ROOT };

/**
 * Walks a log, block by block. `next` checks that a block has its hash and comes next; `end` that the walk ended where
 * a root was recorded. A client that sends several blocks at once records the root after the last on each of them, so
 * a recorded root is compared where the recorded roots change.
 */
export class LogWalk {
  #place: Cursor;
  #first = true;
  #recorded: string | undefined;

  constructor(after: Cursor = START) {
    this.#place = after;
    this.#recorded = undefined;
  }

  /** Where the walk stands. */
  get place(): Cursor {
    return this.#place;
  }

  /** Checks one more block and returns its bytes. Throws {@link IntegrityError}. */
  next(chunk: LogChunk): Uint8Array<ArrayBuffer> {
    const { sequence_number: sequence, block_hash, merkle_root } = chunk;
    const follows = sequence === this.#place.sequence + 1;
    // A log may begin at 0 or at 1.
    const begins = this.#first && this.#place.sequence === -1 && sequence === 1;
    if (!follows && !begins) {
      throw broken(this.#place.sequence + 1, "it is missing", "root_mismatch");
    }
    const block = decodeBase64(chunk.ciphertext_b64);
    if (sha256Hex(block) !== block_hash) {
      throw broken(sequence, "its bytes do not have its hash", "block_hash_mismatch");
    }
    if (this.#recorded !== undefined && this.#recorded !== merkle_root) this.end();
    this.#place = { sequence, root: nextRoot(this.#place.root, block_hash) };
    this.#recorded = merkle_root;
    this.#first = false;
    return block;
  }

  /** Checks that the chain ends in the root that was recorded for its last block. */
  end(): void {
    if (this.#recorded === undefined || this.#recorded === this.#place.root) return;
    throw broken(this.#place.sequence, "the chain does not end in the recorded root", "root_mismatch");
  }
}

/** Checks a whole log, or what comes after `after`: hashes, order, and the chain of roots up to `head`. */
export function verifyLog(
  chunks: Iterable<LogChunk>,
  { head, after = START }: { head?: { sequence_number: number; merkle_root: string }; after?: Cursor } = {},
): Verdict {
  const walk = new LogWalk(after);
  let checked = 0;
  return judge(() => {
    for (const chunk of chunks) {
      walk.next(chunk);
      checked++;
    }
    walk.end();
    if (head !== undefined && head.sequence_number !== walk.place.sequence) {
      throw broken(walk.place.sequence + 1, `the head is ${head.sequence_number}`, "root_mismatch");
    }
    if (head !== undefined && head.merkle_root !== walk.place.root) {
      throw broken(walk.place.sequence, "the head has another root", "root_mismatch");
    }
  }, () => checked);
}

/** Checks a lineage as `GET /snapshot/:agent_id/lineage` shows it: newest first, one unbroken line. */
export function verifyLineage(entries: readonly LineageEntry[]): Verdict {
  let checked = 0;
  return judge(() => {
    for (const [i, entry] of entries.entries()) {
      const before = entries[i + 1];
      const genesis = entry.sequence_number === 0;
      if (before !== undefined && before.sequence_number !== entry.sequence_number - 1) {
        throw broken(entry.sequence_number - 1, "it is missing", "lineage_broken");
      }
      if (genesis !== (entry.parent_path === null)) {
        throw broken(entry.sequence_number, "only the first snapshot has no parent", "lineage_broken");
      }
      if (before !== undefined && entry.parent_path !== before.storage_path) {
        throw broken(entry.sequence_number, "its parent is another snapshot", "lineage_broken");
      }
      checked++;
    }
  }, () => checked);
}

/** As {@link verifyLineage}, but throws {@link IntegrityError}. */
export function checkLineage(entries: readonly LineageEntry[]): void {
  const { valid, brokenAt, reason } = verifyLineage(entries);
  if (!valid) throw broken(brokenAt!, reason!, "lineage_broken");
}

function judge(walk: () => void, checked: () => number): Verdict {
  try {
    walk();
    return { valid: true, checked: checked() };
  } catch (error) {
    if (!(error instanceof IntegrityError)) throw error;
    const { brokenAt, reason } = error.details as { brokenAt: number; reason: string };
    return { valid: false, checked: checked(), brokenAt, reason };
  }
}

function broken(brokenAt: number, reason: string, code: string): IntegrityError {
  return new IntegrityError(code, `Number ${brokenAt}: ${reason}`, { details: { brokenAt, reason } });
}
