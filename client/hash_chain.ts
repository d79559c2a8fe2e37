/** Hashes, and the chain of roots that a replication log is held together by. */

import { sha256 } from "@noble/hashes/sha2.js";
import { concatBytes, decodeHex, encodeHex, encodeText } from "./bytes.ts";
import { canonicalize } from "./canonical_json.ts";

/** The root of an empty log. */
export const EMPTY_ROOT = "0".repeat(64);

/** SHA-256 as 64 hex digits, of bytes or of a text's UTF-8. */
export function sha256Hex(data: Uint8Array | string): string {
  return encodeHex(sha256(typeof data === "string" ? encodeText(data) : data));
}

/** The root after a block: SHA-256 of the previous root's 32 bytes and the block hash's 32 bytes. */
export function nextRoot(previousRoot: string, blockHash: string): string {
  return sha256Hex(concatBytes(decodeHex(previousRoot), decodeHex(blockHash)));
}

/** SHA-256 of a value's canonical JSON. */
export function hashJson(value: unknown): string {
  return sha256Hex(canonicalize(value));
}
