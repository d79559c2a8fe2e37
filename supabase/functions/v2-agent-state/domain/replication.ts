/** The rules of a replication request that need no database. Spec 4.2; pure. */

import { equalBytes } from "../../_shared/domain/bytes.ts";

/** A chunk as it was sent, decoded. */
export interface Chunk {
  sequence: number;
  blockHash: Uint8Array;
  block: Uint8Array;
  payloadHash: Uint8Array | null;
  timestamp: string | null;
}

/** Sorts chunks by sequence and drops repetitions of the same block. */
export function arrangeChunks(chunks: readonly Chunk[]): Chunk[] {
  const sorted = [...chunks].sort((a, b) => a.sequence - b.sequence);
  return sorted.filter((chunk, i) => i === 0 || !isSameBlock(chunk, sorted[i - 1]!));
}

/** Pairs of chunks of one request that claim the same sequence with different blocks. */
export function findContradictions(arranged: readonly Chunk[]): { kept: Chunk; other: Chunk }[] {
  return arranged.flatMap((chunk, i) => {
    const previous = arranged[i - 1];
    return previous?.sequence === chunk.sequence ? [{ kept: previous, other: chunk }] : [];
  });
}

function isSameBlock(a: Chunk, b: Chunk): boolean {
  return a.sequence === b.sequence && equalBytes(a.blockHash, b.blockHash);
}
