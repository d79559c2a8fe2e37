/** Reads a run of an agent's replication log. Spec 4.2 and 4.3. */

import type { Credential } from "../../_shared/domain/credential.ts";
import type { Database } from "../../_shared/platform/mod.ts";
import { READ_PAGE_BYTES } from "../domain/limits.ts";
import { openRun, type Range, type Run } from "./read_run.ts";

/** One entry of the log, with the bounds of the log it is in. */
export interface LogEntry {
  sequence_number: number;
  block_hash: Uint8Array;
  ciphertext: Uint8Array;
  merkle_root: Uint8Array;
  payload_hash: Uint8Array | null;
  client_timestamp: string | null;
  created_at: string;
  first_sequence: number;
  head_sequence: number;
}

const BYTES_COLUMNS = ["block_hash", "ciphertext", "merkle_root", "payload_hash"];

/** Opens a run; the first call also checks the credential. */
export function openLogRun(db: Database, credential: Credential, range: Range): Promise<Run<LogEntry>> {
  const fetchPiece = (since: number, limit: number) =>
    db.rows<LogEntry>("read_log", {
      p_credential_kind: credential.kind,
      p_credential_hash: credential.hash,
      p_since: since,
      p_before: range.before,
      p_limit: limit,
      p_bytes_max: READ_PAGE_BYTES,
    }, BYTES_COLUMNS);
  return openRun(range, fetchPiece, (entry) => ({ at: entry.sequence_number, head: entry.head_sequence }));
}
