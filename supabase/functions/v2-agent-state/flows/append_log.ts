/**
 * Appends to replication logs, several requests in one transaction when several wait. Spec 4.2.
 *
 * A durable write costs a round trip and a flush however little it writes. So what arrives while calls are under way
 * goes together in the next one: `api.append_logs` writes the plain requests of a batch and passes over the others,
 * which go to `api.append_log` by themselves, as a request that came alone does. Nobody is answered before the
 * transaction with their blocks has been committed, and nobody's refusal or failure is anybody else's.
 */

import type { Credential } from "../../_shared/domain/credential.ts";
import { encodeHex } from "../../_shared/domain/bytes.ts";
import type { Database, Platform } from "../../_shared/platform/mod.ts";
import type { Chunk } from "../domain/replication.ts";
import { shareCalls } from "./share_calls.ts";

/** A parsed POST /replicate; its chunks are sorted, without repetitions. */
export interface Append {
  credential: Credential;
  device: Uint8Array | null;
  chunks: readonly Chunk[];
  merkleRoot: Uint8Array;
  quotaBytes: number;
  /** `performance.now()` when the request came in. */
  startedAt: number;
}

/** The answer, and whether webhooks wait to be told. */
export interface Appended {
  answer: Record<string, unknown>;
  told: boolean;
}

interface Waiting {
  append: Append;
  /** Whose it is: two requests of one credential never share a call. */
  who: string;
  bytes: number;
  settle(result: Appended | Promise<Appended>): void;
}

/** What `api.append_logs` returns: places of the requests, from 1. */
interface Outcome {
  written: number[];
  known: number[];
  told: number[];
}

/** A shared call that failed sooner failed for one of its requests; one that failed later is an outage. */
const OUTAGE_MS = 6_000;
/** One call's share. A larger request goes alone. */
const REQUESTS_MAX = 64;
const CHUNKS_MAX = 1_000;
const BYTES_MAX = 4 * 1024 * 1024;
/** From here on the bytes themselves take the time, and writing some beside others is quicker. */
const BYTES_MUCH = 256 * 1024;

const appenders = new WeakMap<Platform, (waiting: Waiting) => void>();

/** Writes all chunks of a request or none. Errors: those of `api.append_log`. */
export function appendLog(platform: Platform, append: Append): Promise<Appended> {
  let add = appenders.get(platform);
  if (add === undefined) {
    add = shareCalls<Waiting>({
      take: takeTogether,
      run: (together) => writeTogether(platform.db, together),
      isMuch: (queue) => queue.reduce((sum, { bytes }) => sum + bytes, 0) >= BYTES_MUCH,
    });
    appenders.set(platform, add);
  }
  const bytes = append.chunks.reduce((sum, { block }) => sum + block.length, 0);
  return new Promise((settle) => add({ append, who: encodeHex(append.credential.hash), bytes, settle }));
}

/** Divides the queue into what goes into one call and what waits on, both in order. */
function takeTogether(queue: readonly Waiting[]): [Waiting[], Waiting[]] {
  const taken: Waiting[] = [];
  const rest: Waiting[] = [];
  const present = new Set<string>();
  let chunks = 0;
  let bytes = 0;
  for (const waiting of queue) {
    const fits = taken.length === 0 || taken.length < REQUESTS_MAX && !present.has(waiting.who) &&
        chunks + waiting.append.chunks.length <= CHUNKS_MAX && bytes + waiting.bytes <= BYTES_MAX;
    if (!fits) {
      rest.push(waiting);
      continue;
    }
    taken.push(waiting);
    present.add(waiting.who);
    chunks += waiting.append.chunks.length;
    bytes += waiting.bytes;
  }
  return [taken, rest];
}

/** Settles every request; resolves once the shared call is over. Never throws. */
async function writeTogether(db: Database, together: readonly Waiting[]): Promise<void> {
  const [first] = together;
  if (together.length === 1 && first !== undefined) {
    const alone = appendAlone(db, first.append);
    first.settle(alone);
    await alone.catch(() => {});
    return;
  }
  const start = performance.now();
  try {
    const { written, known, told } = await db.call<Outcome>("append_logs", batchArguments(together));
    const [isWritten, isKnown, isTold] = [new Set(written), new Set(known), new Set(told)];
    for (const [i, { append, settle }] of together.entries()) {
      if (isWritten.has(i + 1)) settle({ answer: showWritten(append), told: isTold.has(i + 1) });
      else if (isKnown.has(i + 1)) settle({ answer: { idempotent: true }, told: false });
      else settle(appendAlone(db, append));
    }
  } catch (error) {
    const outage = performance.now() - start >= OUTAGE_MS;
    for (const { append, settle } of together) {
      settle(outage ? Promise.reject(error) : appendAlone(db, append));
    }
  }
}

async function appendAlone(db: Database, append: Append): Promise<Appended> {
  const { chunks, credential } = append;
  const { told = false, ...answer } = await db.call<{ told?: boolean }>("append_log", {
    p_credential_kind: credential.kind,
    p_credential_hash: credential.hash,
    p_device_hash: append.device,
    ...chunkArguments(chunks),
    p_merkle_root: append.merkleRoot,
    p_quota_bytes: append.quotaBytes,
    p_elapsed_ms: performance.now() - append.startedAt,
  });
  return { answer, told };
}

function showWritten({ chunks, merkleRoot }: Append): Record<string, unknown> {
  return {
    accepted: chunks.length,
    merkle_root: encodeHex(merkleRoot),
    sequence_number: chunks.at(-1)!.sequence,
  };
}

function batchArguments(together: readonly Waiting[]) {
  const appends = together.map(({ append }) => append);
  const now = performance.now();
  return {
    p_credential_kinds: appends.map(({ credential }) => credential.kind),
    p_credential_hashes: appends.map(({ credential }) => credential.hash),
    p_device_hashes: appends.map(({ device }) => device),
    p_merkle_roots: appends.map(({ merkleRoot }) => merkleRoot),
    p_elapsed_ms: appends.map(({ startedAt }) => now - startedAt),
    p_firsts: appends.map(({ chunks }) => chunks[0]!.sequence),
    p_lasts: appends.map(({ chunks }) => chunks.at(-1)!.sequence),
    p_counts: appends.map(({ chunks }) => chunks.length),
    p_bytes: together.map(({ bytes }) => bytes),
    p_requests: appends.flatMap(({ chunks }, i) => chunks.map(() => i + 1)),
    ...chunkArguments(appends.flatMap(({ chunks }) => chunks)),
    p_quota_bytes: appends[0]!.quotaBytes,
  };
}

function chunkArguments(chunks: readonly Chunk[]) {
  const has = (key: "payloadHash" | "timestamp") => chunks.some((chunk) => chunk[key] !== null);
  return {
    p_sequences: chunks.map((chunk) => chunk.sequence),
    p_block_hashes: chunks.map((chunk) => chunk.blockHash),
    p_blocks: chunks.map((chunk) => chunk.block),
    p_payload_hashes: has("payloadHash") ? chunks.map((chunk) => chunk.payloadHash) : null,
    p_timestamps: has("timestamp") ? chunks.map((chunk) => chunk.timestamp) : null,
  };
}
