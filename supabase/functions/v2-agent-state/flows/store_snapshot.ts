/** Stores a snapshot: hold the money → upload the blob → confirm. Spec 3 and 4.1. */

import type { Credential } from "../../_shared/domain/credential.ts";
import { encodeHex } from "../../_shared/domain/bytes.ts";
import { ApiError } from "../../_shared/errors.ts";
import type { Platform } from "../../_shared/platform/mod.ts";
import { objectName, storagePath } from "../domain/snapshot.ts";

/** A parsed POST /snapshot. */
export interface SnapshotUpload {
  agentId: string;
  sequence: number;
  parentPath: string | null;
  policyHash: Uint8Array;
  payloadHash: Uint8Array;
  ciphertext: Uint8Array;
  timestamp: string;
}

/** A snapshot as the API shows it. Spec 2.1. */
export type Receipt = Record<string, unknown>;

/** What became of an upload. */
export interface StoredSnapshot {
  receipt: Receipt;
  /** Whether webhooks wait to be told. */
  told: boolean;
}

/**
 * Returns the receipt of the confirmed snapshot: this upload's, or that of an equal one that was there first.
 *
 * Whatever stops this function half-way, the attempt's row remembers what it was doing: the next write of the
 * agent, or the sweep, refunds what was not confirmed, and a repeated request takes over its debit.
 * Errors: those of `api.begin_snapshot` and `api.confirm_snapshot`; `storage_unavailable` when the blob could not
 * be stored, with the debit refunded.
 */
export async function storeSnapshot(
  platform: Platform,
  credential: Credential,
  upload: SnapshotUpload,
  settings: { snapshotLeaseSeconds: number; projectQuotaBytes: number },
): Promise<StoredSnapshot> {
  const { db, blobs } = platform;
  const attemptId = crypto.randomUUID();
  const hash = encodeHex(upload.payloadHash);
  const name = objectName(attemptId, upload.agentId, upload.sequence, hash);

  const begun = await db.call<{ receipt?: Receipt }>("begin_snapshot", {
    p_credential_kind: credential.kind,
    p_credential_hash: credential.hash,
    p_agent_id: upload.agentId,
    p_sequence_number: upload.sequence,
    p_parent_path: upload.parentPath,
    p_policy_hash: upload.policyHash,
    p_client_payload_hash: upload.payloadHash,
    p_byte_size: upload.ciphertext.length,
    p_client_timestamp: upload.timestamp,
    p_storage_path: storagePath(upload.agentId, upload.sequence, hash),
    p_attempt_id: attemptId,
    p_object_name: name,
    p_lease_seconds: settings.snapshotLeaseSeconds,
    p_quota_bytes: settings.projectQuotaBytes,
  });
  if (begun.receipt !== undefined) return { receipt: begun.receipt, told: false };

  try {
    await blobs.put(name, upload.ciphertext);
  } catch (cause) {
    platform.log({ level: "error", event: "blob_not_stored", attempt_id: attemptId });
    await giveUp(platform, attemptId, name);
    throw new ApiError("storage_unavailable", {}, { cause });
  }
  return await confirm(platform, attemptId, name);
}

async function confirm(platform: Platform, attemptId: string, name: string): Promise<StoredSnapshot> {
  try {
    const { receipt, told, object_name } = await platform.db.call<StoredSnapshot & { object_name: string }>(
      "confirm_snapshot",
      { p_attempt_id: attemptId },
    );
    if (object_name !== name) removeLater(platform, name);
    return { receipt, told };
  } catch (error) {
    // Refused: another hash has won, or the lease was over. Without an answer nothing is known, and the lease or
    // the client's own retry will settle it.
    const refused = error instanceof ApiError && error.code !== "service_unavailable" &&
      error.code !== "internal_error";
    if (refused) await giveUp(platform, attemptId, name);
    throw error;
  }
}

/** Fails the attempt, which refunds it; when even that cannot be said now, the lease runs out by itself. */
async function giveUp(platform: Platform, attemptId: string, name: string): Promise<void> {
  removeLater(platform, name);
  try {
    await platform.db.call("fail_attempt", { p_attempt_id: attemptId });
  } catch {
    platform.log({ level: "warn", event: "attempt_left_to_its_lease", attempt_id: attemptId });
  }
}

/** The sweep would remove it too; this only saves the space until then. */
function removeLater(platform: Platform, name: string): void {
  platform.background(platform.blobs.remove([name]).catch(() => {}));
}
