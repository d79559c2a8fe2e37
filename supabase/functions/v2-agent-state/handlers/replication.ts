/** The replication log: append, head, replay. Spec 4.2. */

import { z } from "zod";
import type { AppContext } from "../../_shared/context.ts";
import { encodeBase64, encodeHex, equalBytes, sha256 } from "../../_shared/domain/bytes.ts";
import { parse, parseBody, refuse } from "../../_shared/middleware/parse.ts";
import { base64, hash, sequence, timestamp } from "../../_shared/middleware/shapes.ts";
import { timed } from "../../_shared/middleware/timing.ts";
import { CHUNK_BYTES_MAX, REPLAY_CHUNKS_MAX, REPLICATE_CHUNKS_MAX } from "../domain/limits.ts";
import { arrangeChunks, type Chunk, findContradictions } from "../domain/replication.ts";
import { appendLog } from "../flows/append_log.ts";
import { type LogEntry, openLogRun } from "../flows/read_log.ts";
import { readHead } from "../flows/read_together.ts";
import { streamJson } from "../../_shared/middleware/stream_json.ts";

const CHUNK = z.object({
  sequence_number: sequence,
  block_hash: hash(),
  ciphertext_b64: base64(CHUNK_BYTES_MAX, "chunk_too_large"),
  client_payload_hash: hash().nullish(),
  timestamp: timestamp.nullish(),
}).transform((sent): Chunk => ({
  sequence: sent.sequence_number,
  blockHash: sent.block_hash,
  block: sent.ciphertext_b64,
  payloadHash: sent.client_payload_hash ?? null,
  timestamp: sent.timestamp ?? null,
}));

/** POST /replicate: its body. */
export const APPEND = z.object({
  chunks: z.array(CHUNK).min(1).max(REPLICATE_CHUNKS_MAX),
  merkle_root: hash(),
});

/** -1 and 0 both mean "from the start": the first entry of a log may be number 0. */
export const SINCE = z.object({
  since: z.string("missing_since_param").min(1, "missing_since_param").regex(
    /^(-1|0|[1-9][0-9]{0,15})$/,
    "invalid",
  )
    .transform(Number).refine(Number.isSafeInteger, "invalid")
    .meta({ wire: { type: "integer", minimum: -1 } }),
});

/** POST /replicate: appends blocks, all or none. 200 `{accepted, sequence_number, merkle_root}`. */
export async function replicate(c: AppContext): Promise<Response> {
  const { chunks, merkle_root } = await parseBody(c, APPEND);
  const mismatch = await timed(c, "hash", () => findMismatch(chunks));
  if (mismatch >= 0) await refuse(c, "block_hash_mismatch", { index: mismatch });
  const arranged = arrangeChunks(chunks);
  await refuseContradictions(c, arranged);
  const append = {
    credential: c.get("credential"),
    device: c.get("device"),
    startedAt: c.get("startedAt"),
    quotaBytes: c.get("settings").projectQuotaBytes,
    chunks: arranged,
    merkleRoot: merkle_root,
  };
  const { answer, told } = await timed(c, "database", () => appendLog(c.get("platform"), append));
  c.set("told", told);
  return await timed(c, "encode", () => c.json(answer));
}

/** GET /head: 200 with the log's head. Errors: `no_replication_entries`. */
export async function head(c: AppContext): Promise<Response> {
  const answer = await readHead(c.get("platform"), c.get("credential"));
  c.get("countRead")(0);
  return c.json(answer);
}

/** GET /replay?since=N: 200 `{chunks, count, has_more}`, streamed; at most 1000 chunks. */
export async function replay(c: AppContext): Promise<Response> {
  const { since } = await parse(c, SINCE, c.req.query());
  const run = await timed(c, "database", () =>
    openLogRun(c.var.platform.db, c.var.credential, {
      since: since === 0 ? -1 : since,
      before: Number.MAX_SAFE_INTEGER,
      limit: REPLAY_CHUNKS_MAX,
    }));
  c.var.countRead(1);
  return streamJson(c, {
    before: '{"chunks":[',
    items: run.entries,
    toJson: showChunk,
    after: `],"count":${run.count},"has_more":${run.hasMore}}`,
  });
}

/** Place of the first chunk whose hash is not that of its bytes, or -1. */
function findMismatch(chunks: readonly Chunk[]): number {
  return chunks.findIndex(({ block, blockHash }) => !equalBytes(sha256(block), blockHash));
}

async function refuseContradictions(c: AppContext, arranged: readonly Chunk[]): Promise<void> {
  const conflicts = findContradictions(arranged).map(({ kept, other }) => ({
    sequence_number: kept.sequence,
    existing_block_hash: encodeHex(kept.blockHash),
    attempted_block_hash: encodeHex(other.blockHash),
  }));
  if (conflicts.length > 0) await refuse(c, "split_brain_detected", { conflicts });
}

/** Every value is a number, hex, base64 or a timestamp of ours: nothing needs escaping. */
function showChunk(entry: LogEntry): string {
  return `{"sequence_number":${entry.sequence_number},"block_hash":"${encodeHex(entry.block_hash)}",` +
    `"ciphertext_b64":"${encodeBase64(entry.ciphertext)}","merkle_root":"${encodeHex(entry.merkle_root)}",` +
    `"created_at":"${entry.created_at}"}`;
}
