/**
 * What is inside a snapshot's ciphertext, and how it is checked.
 *
 * The document says which agent, number and parent it is for, so that no snapshot can stand in for another. Its hash,
 * `client_payload_hash`, is of its canonical JSON without that field; then the field is added and all is encrypted.
 */

import { decodeText, encodeBase64, encodeText, randomBytes } from "./bytes.ts";
import { canonicalize, type Json } from "./canonical_json.ts";
import { type Key, open, seal } from "./cipher.ts";
import { IntegrityError } from "./errors.ts";
import { hashJson } from "./hash_chain.ts";
import type { SnapshotReceipt } from "./wire.ts";

/** Until policies are enforced. */
export const NO_POLICY = "0".repeat(64);
const SALT_BYTES = 16;

/** A document, encrypted. Other clients may have added fields. */
export interface SnapshotDocument {
  agent_id: string;
  sequence_number: number;
  parent_snapshot: string | null;
  policy_hash: string;
  timestamp: string;
  /** What the agent gave to keep. */
  active_context: Json;
  /** Random, so that the hash, which the service sees, cannot be compared with guesses. */
  salt?: string;
  client_payload_hash: string;
  [field: string]: unknown;
}

/** What a document is made of. */
export type NewDocument = Omit<SnapshotDocument, "salt" | "client_payload_hash">;

/** Makes, hashes and encrypts a document. Returns the packed block and the hash. */
export async function sealDocument(key: Key, parts: NewDocument) {
  const document = { ...parts, salt: encodeBase64(randomBytes(SALT_BYTES)) };
  const client_payload_hash = hashDocument(document);
  const plaintext = canonicalize({ ...document, client_payload_hash });
  return { hash: client_payload_hash, block: await seal(key, encodeText(plaintext)) };
}

/** The hash of a document: its own `client_payload_hash` plays no part. */
export function hashDocument(document: Record<string, unknown>): string {
  const { client_payload_hash: _, ...rest } = document;
  return hashJson(rest);
}

/**
 * Decrypts a block and checks that it is what the receipt says. Throws {@link IntegrityError}: `size_mismatch`,
 * `decryption_failed`, `payload_hash_mismatch`, `lineage_broken`.
 */
export async function openDocument(
  key: Key,
  block: Uint8Array,
  receipt: Pick<SnapshotReceipt, "agent_id" | "sequence_number" | "byte_size" | "client_payload_hash">,
): Promise<SnapshotDocument> {
  if (block.length !== receipt.byte_size) {
    const message = `The ciphertext has ${block.length} bytes, its receipt says ${receipt.byte_size}`;
    throw new IntegrityError("size_mismatch", message);
  }
  const document = parseDocument(decodeText(await open(key, block)));
  const hash = hashDocument(document);
  if (hash !== document.client_payload_hash || hash !== receipt.client_payload_hash.toLowerCase()) {
    throw new IntegrityError("payload_hash_mismatch", "The snapshot is not the one that its hash names");
  }
  if (document.agent_id !== receipt.agent_id || document.sequence_number !== receipt.sequence_number) {
    const message = `This is snapshot ${document.sequence_number} of ${document.agent_id}, shown as ` +
      `${receipt.sequence_number} of ${receipt.agent_id}`;
    throw new IntegrityError("lineage_broken", message);
  }
  if ((document.parent_snapshot === null) !== (document.sequence_number === 0)) {
    throw new IntegrityError("lineage_broken", "Only the first snapshot has no parent");
  }
  return document;
}

function parseDocument(text: string): SnapshotDocument {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null && !Array.isArray(value)) {
      return value as SnapshotDocument;
    }
  } catch {
    // Told below, like any other text that is no document.
  }
  throw new IntegrityError("payload_hash_mismatch", "What was decrypted is not a snapshot");
}
