/**
 * What is inside a block of a replication log.
 *
 * The plaintext is the canonical JSON of `{"chain":{"previous_root","sequence"},"memories":[…]}`. Existing logs have
 * `memories` alone, and their readers ignore the rest. `chain` puts a block's place under the key's protection: the
 * service, which could recompute every root, cannot reorder, drop or repeat what it cannot encrypt.
 */

import { decodeText, encodeText } from "./bytes.ts";
import { canonicalize, type Json } from "./canonical_json.ts";
import { type Key, open, seal, SEAL_OVERHEAD } from "./cipher.ts";
import { IntegrityError, TooLargeError } from "./errors.ts";
import { nextRoot, sha256Hex } from "./hash_chain.ts";
import type { Cursor } from "./verify.ts";

/** What blocks are filled up to. */
const BLOCK_BYTES_TARGET = 64 * 1024;
/** What the service takes. */
export const BLOCK_BYTES_MAX = 262_144;

/** One thing to remember. Other fields are kept, if JSON can hold them. */
export interface MemoryRecord {
  id: string;
  text: string;
  /** Milliseconds since 1970, in decimal. */
  timestamp: string;
  [field: string]: Json;
}

/** A block, encrypted, with its place in the log. */
export interface SealedBlock extends Cursor {
  bytes: Uint8Array<ArrayBuffer>;
  hash: string;
}

/** Encrypts records as the block after `previous`. Throws {@link TooLargeError}. */
export async function sealBlock(
  key: Key,
  records: readonly MemoryRecord[],
  previous: Cursor,
): Promise<SealedBlock> {
  const sequence = previous.sequence + 1;
  const chain = { previous_root: previous.root, sequence };
  const bytes = await seal(key, encodeText(canonicalize({ chain, memories: records })));
  if (bytes.length > BLOCK_BYTES_MAX) {
    const message = `A block has at most ${BLOCK_BYTES_MAX} bytes; this record alone makes ${bytes.length}`;
    throw new TooLargeError("chunk_too_large", message);
  }
  const hash = sha256Hex(bytes);
  return { bytes, hash, sequence, root: nextRoot(previous.root, hash) };
}

/**
 * Decrypts a block and checks that it was made to come after `previous`. Throws {@link IntegrityError}. Blocks of older
 * clients do not say where they belong, and are held by their hash and the root alone.
 */
export async function openBlock(key: Key, bytes: Uint8Array, previous: Cursor): Promise<MemoryRecord[]> {
  const { chain, memories } = parseBlock(decodeText(await open(key, bytes)));
  if (chain !== undefined && chain.previous_root !== previous.root) {
    const message = `The block after ${previous.sequence} was made to come after another one`;
    throw new IntegrityError("root_mismatch", message);
  }
  return memories;
}

/** Shares records out over blocks, in order, so that each block has about 64 KiB. */
export function packRecords(records: readonly MemoryRecord[]): MemoryRecord[][] {
  const blocks: MemoryRecord[][] = [];
  let room = 0;
  for (const record of records) {
    const size = encodeText(canonicalize(record)).length + 1;
    if (size > room) {
      blocks.push([]);
      room = BLOCK_BYTES_TARGET - SEAL_OVERHEAD;
    }
    blocks.at(-1)!.push(record);
    room -= size;
  }
  return blocks;
}

interface Contents {
  chain?: { previous_root: string; sequence: number };
  memories: MemoryRecord[];
}

function parseBlock(text: string): Contents {
  try {
    const contents = JSON.parse(text);
    if (Array.isArray(contents.memories)) return contents;
  } catch {
    // Told below, like any other text that is no block.
  }
  throw new IntegrityError("block_hash_mismatch", "What was decrypted is not a block of records");
}
