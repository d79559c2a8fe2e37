/** What agents do with a key: snapshots, the replication log, Layer A. Spec 4.1 to 4.3. */

import { z } from "zod";
import { encodeBase64, encodeHex, sha256 as digest } from "../../_shared/domain/bytes.ts";
import type { Operations } from "../../_shared/reference/operation.ts";
import { bytes, count, sha256, time, url, uuid, words } from "../../_shared/reference/shapes.ts";
import { ENVELOPES_PAGE } from "../handlers/layer_a.ts";
import { APPEND, SINCE } from "../handlers/replication.ts";
import { AT_SEQUENCE, LINEAGE_PAGE, OF_AGENT, UPLOAD } from "../handlers/snapshots.ts";
import { type Scene, SHOWN } from "./scene.ts";

const AGENT_HEADERS = z.object({ "x-device-id": words("laptop-1").optional() });
const DEVICE = "Any name of the device; what `/metadata` and `/billing/usage` count. Only its hash is kept";

/** Sixty-four bytes that could be an IV, a ciphertext and a tag. */
const BLOCK = new Uint8Array([...digest("an IV and some"), ...digest("ciphertext with its tag")]);
const BLOCK_B64 = encodeBase64(BLOCK);
const BLOCK_HASH = encodeHex(digest(BLOCK));
const PAYLOAD_HASH = encodeHex(digest("what only the client can read"));

const RECEIPT = z.object({
  snapshot_id: uuid("e2a9f4b8-71c3-4d5e-8f60-1a2b3c4d5e6f"),
  agent_id: words("my-agent"),
  sequence_number: count(0),
  storage_path: words(SHOWN.storagePath).describe(
    "`{agent_id}/seq-{sequence_number}-{12 digits of the hash}.bin`",
  ),
  byte_size: count(64),
  cost_milli: count(3).describe("Milli-cents that were debited; 0 for project tokens"),
  client_payload_hash: sha256(),
  status: z.literal("confirmed"),
  confirmed_at: time,
}).meta({ id: "Receipt" });
const RESTORED = z.object({
  receipt: RECEIPT,
  ciphertextUrl: url("https://project.supabase.co/storage/v1/object/public/agent-state/3f8e1c52/my-agent.bin")
    .describe("Where the ciphertext is downloaded from, without a credential"),
}).meta({ id: "RestoredSnapshot" });
const LINEAGE_ENTRY = z.object({
  sequence_number: count(0),
  storage_path: words(SHOWN.storagePath),
  parent_path: words("my-agent/seq-0-9f86d081884c.bin").nullable(),
  client_payload_hash: sha256(),
  confirmed_at: time,
}).meta({ id: "LineageEntry" });

const APPENDED = z.object({
  accepted: count(1).describe("Chunks written"),
  sequence_number: count(2).describe("The last one accepted"),
  merkle_root: sha256(),
}).meta({ id: "Appended" });
const REPEATED = z.object({ idempotent: z.literal(true) }).meta({ id: "AlreadyAppended" })
  .describe("Every chunk was registered before, with the same hash; nothing was written or charged");
const HEAD = z.object({ sequence_number: count(2), merkle_root: sha256(), updated_at: time }).meta({
  id: "Head",
});
const LOG_CHUNK = z.object({
  sequence_number: count(1),
  block_hash: sha256(BLOCK_HASH),
  ciphertext_b64: bytes(BLOCK_B64),
  merkle_root: sha256(),
  created_at: time,
}).meta({ id: "LogChunk" });
const REPLAY = z.object({
  chunks: z.array(LOG_CHUNK).max(1_000),
  count: count(1),
  has_more: z.boolean().meta({ examples: [false] }),
}).meta({ id: "Replay" });

const METADATA = z.object({
  envelopeCount: count(1),
  totalBytes: count(64),
  storeOps: count(1),
  recallRequests: count(4),
  syncOpsUsed: count(1),
  syncOpsQuota: count(9_007_199_254_740_991),
  devicesInSync: count(1),
  avgLatencyMs: z.number().min(0).meta({ examples: [4.2] }),
  lastSyncAt: time.nullable().describe("Null when nothing was synced yet"),
}).meta({ id: "Metadata" });
const ENVELOPE = z.object({
  ciphertext: bytes(encodeBase64(BLOCK.subarray(12))).describe("Ciphertext and tag"),
  iv: bytes(encodeBase64(BLOCK.subarray(0, 12))),
  clientPayloadHash: sha256(),
  sequenceNumber: count(1),
  timestamp: words("2026-11-20T12:00:00.000Z").describe("The client's own, else when it was stored"),
}).meta({ id: "Envelope" });

const SNAPSHOT_FIELDS = {
  agent_id: "Any name that the client chose; never interpreted",
  sequence_number: "0 first, then exactly the latest and one",
  parent_snapshot: "`storage_path` of the snapshot before; null at sequence 0",
  policy_hash: "64 zeros until policies are enforced",
  client_payload_hash: "SHA-256 of what was encrypted; a repeated request is recognised by it",
  ciphertext_b64: "IV, ciphertext and tag of AES-256-GCM",
  byte_size: "Length of the decoded ciphertext, at most 262144",
  timestamp: "When the client made it",
};

export const AGENT_OPERATIONS: Operations<Scene> = {
  "POST /snapshot": {
    tag: "Snapshots",
    summary: "Store a checkpoint",
    description:
      "Answers its receipt. A request that is repeated while its sequence is the latest answers the same " +
      "receipt again, and nothing is stored or charged twice.",
    headers: AGENT_HEADERS,
    body: UPLOAD,
    fields: { ...SNAPSHOT_FIELDS, "x-device-id": DEVICE },
    answers: { 200: { body: RECEIPT } },
    errors: [
      ...["bad_policy_hash", "bad_payload_hash", "bad_sequence", "genesis_violation"] as const,
      ...["missing_parent_snapshot", "byte_size_mismatch", "insufficient_credits", "forbidden_role"] as const,
      ...["trial_quota_exceeded", "sequence_conflict", "sequence_gap", "storage_unavailable"] as const,
    ],
    example: ({ agentId, storagePath }) => ({
      body: {
        agent_id: agentId,
        sequence_number: 1,
        parent_snapshot: storagePath,
        policy_hash: "0".repeat(64),
        client_payload_hash: PAYLOAD_HASH,
        ciphertext_b64: BLOCK_B64,
        byte_size: BLOCK.length,
        timestamp: "2026-11-20T12:00:00.000Z",
      },
    }),
  },
  "GET /snapshot/:agent_id/latest": {
    tag: "Snapshots",
    summary: "Restore the latest checkpoint",
    headers: AGENT_HEADERS,
    path: OF_AGENT,
    fields: { ...SNAPSHOT_FIELDS, "x-device-id": DEVICE },
    answers: { 200: { body: RESTORED } },
    errors: ["no_snapshots_for_agent"],
    example: ({ agentId }) => ({ path: { agent_id: agentId } }),
  },
  "GET /snapshot/:agent_id/lineage": {
    tag: "Snapshots",
    summary: "List the newest checkpoints with their parents",
    headers: AGENT_HEADERS,
    path: OF_AGENT,
    query: LINEAGE_PAGE,
    fields: {
      ...SNAPSHOT_FIELDS,
      "x-device-id": DEVICE,
      limit: "At most so many; clamped to 1 to 500, 100 when absent",
    },
    answers: { 200: { body: z.array(LINEAGE_ENTRY).max(500) } },
    example: ({ agentId }) => ({ path: { agent_id: agentId }, query: { limit: 10 } }),
  },
  "GET /snapshot/:agent_id/:sequence": {
    tag: "Snapshots",
    summary: "Restore one checkpoint",
    headers: AGENT_HEADERS,
    path: AT_SEQUENCE,
    fields: { ...SNAPSHOT_FIELDS, "x-device-id": DEVICE, sequence: "Its `sequence_number`" },
    answers: { 200: { body: RESTORED } },
    errors: ["bad_sequence", "snapshot_not_found"],
    example: ({ agentId }) => ({ path: { agent_id: agentId, sequence: 0 } }),
  },
  "POST /replicate": {
    tag: "Replication log",
    summary: "Append blocks, all or none",
    description:
      "The first block of a log is number 0 or 1, each later one follows without a gap. Blocks that are " +
      "registered with the same hash are passed over; one with another hash refuses the whole request.",
    headers: AGENT_HEADERS,
    body: APPEND,
    fields: {
      "x-device-id": DEVICE,
      merkle_root: "The client's root over all chunks; kept and given back",
      sequence_number: "Where the block stands in the log",
      block_hash: "SHA-256 of the decoded block",
      ciphertext_b64: "IV, ciphertext and tag; at most 262144 bytes decoded",
      client_payload_hash: "Shown in `/envelopes`; the block's hash when absent",
      timestamp: "Shown in `/envelopes`; when it was stored when absent",
    },
    answers: { 200: { body: z.union([APPENDED, REPEATED]) } },
    errors: [
      ...["bad_sequence", "block_hash_mismatch", "insufficient_credits", "forbidden_role"] as const,
      ...["trial_quota_exceeded", "sequence_gap", "split_brain_detected", "chunk_too_large"] as const,
    ],
    example: () => ({
      body: {
        chunks: [{ sequence_number: 2, block_hash: BLOCK_HASH, ciphertext_b64: BLOCK_B64 }],
        merkle_root: encodeHex(digest("the root over all chunks of this request")),
      },
    }),
  },
  "GET /head": {
    tag: "Replication log",
    summary: "Where the log stands",
    headers: AGENT_HEADERS,
    fields: { "x-device-id": DEVICE },
    answers: { 200: { body: HEAD } },
    errors: ["no_replication_entries"],
    example: () => ({}),
  },
  "GET /replay": {
    tag: "Replication log",
    summary: "Read blocks in order",
    description: "At most 1000, streamed. The highest `sequence_number` of an answer is the next `since`.",
    headers: AGENT_HEADERS,
    query: SINCE,
    fields: { "x-device-id": DEVICE, since: "Only blocks after this one; -1 and 0 from the start" },
    answers: { 200: { body: REPLAY } },
    errors: ["missing_since_param"],
    example: () => ({ query: { since: 0 } }),
  },
  "GET /metadata": {
    tag: "Layer A",
    summary: "All that the server can see of the log",
    headers: AGENT_HEADERS,
    fields: { "x-device-id": DEVICE },
    answers: { 200: { body: METADATA } },
    example: () => ({}),
  },
  "GET /envelopes": {
    tag: "Layer A",
    summary: "Read the log as envelopes",
    headers: AGENT_HEADERS,
    query: ENVELOPES_PAGE,
    fields: {
      "x-device-id": DEVICE,
      limit: "At most so many; 100 when absent",
      since: "Only after this sequence number",
      before: "Only before this sequence number",
    },
    answers: {
      200: {
        body: z.array(ENVELOPE).max(500),
        headers: {
          "x-result-count": count(1).describe("Envelopes in this answer"),
          "x-next-cursor": z.string().meta({ examples: [""] }).describe(
            "The last sequence number, to pass as `since`; empty when there is nothing after it",
          ),
        },
      },
    },
    example: () => ({ query: { limit: 100, since: 0 } }),
  },
};
