/**
 * A client of the encrypted agent-state service, for Deno, Node 20, browsers and workers. What leaves it is encrypted;
 * what comes back is checked.
 */

export {
  AgentStateClient,
  type AgentStateOptions,
  type Restored,
  SNAPSHOT_BYTES_MAX,
  type SnapshotInput,
} from "./agent_state_client.ts";
export { BLOCK_BYTES_MAX, type MemoryRecord } from "./block.ts";
export { canonicalize, type Json } from "./canonical_json.ts";
export { decodeBase64, decodeHex, encodeBase64, encodeHex } from "./bytes.ts";
export { deriveKey, generateKey, importKey, type Key, open, seal } from "./cipher.ts";
export * from "./errors.ts";
export { EMPTY_ROOT, hashJson, nextRoot, sha256Hex } from "./hash_chain.ts";
export type { LogBlock } from "./read_log.ts";
export {
  type Divergence,
  type Flushed,
  Replicator,
  type ReplicatorOptions,
  type Resolution,
} from "./replicator.ts";
export { hashDocument, type SnapshotDocument } from "./snapshot_document.ts";
export { createMemoryStore, type Store } from "./store.ts";
export { TeamClient, type TeamInfo, type TeamOptions, type TeamRole } from "./team_client.ts";
export {
  exportMemberKeys,
  fingerprint,
  generateMemberKeys,
  importMemberKeys,
  type MemberKeys,
} from "./team_key.ts";
export type { TeamMemory } from "./team_memory.ts";
export type { RotationOptions } from "./team_rotation.ts";
export type { ServiceOptions } from "./transport.ts";
export * from "./verify.ts";
export type { LineageEntry, LogChunk, LogHead, SnapshotReceipt } from "./wire.ts";
