/** What the service answers, field by field. Specification sections 2 and 4. */

/** A stored snapshot. */
export interface SnapshotReceipt {
  snapshot_id: string;
  agent_id: string;
  sequence_number: number;
  storage_path: string;
  byte_size: number;
  /** Thousandths of a cent; 0 for project tokens. */
  cost_milli: number;
  client_payload_hash: string;
  status: string;
  confirmed_at: string;
}

/** A receipt and where its ciphertext is downloaded from. */
export interface FoundSnapshot {
  receipt: SnapshotReceipt;
  ciphertextUrl: string;
}

/** One step of a lineage. */
export interface LineageEntry {
  sequence_number: number;
  storage_path: string;
  parent_path: string | null;
  client_payload_hash: string;
  confirmed_at: string;
}

/** One block of a replication log. */
export interface LogChunk {
  sequence_number: number;
  block_hash: string;
  ciphertext_b64: string;
  merkle_root: string;
  created_at: string;
}

/** A page of `GET /replay`. */
export interface ReplayPage {
  chunks: LogChunk[];
  count: number;
  has_more?: boolean;
}

/** Where a log stands. */
export interface LogHead {
  sequence_number: number;
  merkle_root: string;
  updated_at: string;
}
