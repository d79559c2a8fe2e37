/** What a client does before anything leaves it: AES-256-GCM, hashes, and the chain of roots. */

import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex, concatBytes, hexToBytes } from "@noble/hashes/utils.js";

const IV_BYTES = 12;

/** The root of an empty log. */
export const EMPTY_ROOT = "0".repeat(64);

/** SHA-256 in hex. */
export function sha256Hex(bytes: Uint8Array): string {
  return bytesToHex(sha256(bytes));
}

/** The root after a block: SHA-256 of the previous root's bytes and the block hash's bytes. */
export function nextRoot(previousRoot: string, blockHash: string): string {
  return sha256Hex(concatBytes(hexToBytes(previousRoot), hexToBytes(blockHash)));
}

/** A new AES-256 key. */
export async function newKey(): Promise<CryptoKey> {
  return await crypto.subtle.generateKey({ name: "AES-GCM", length: 256 }, true, ["encrypt", "decrypt"]);
}

/** Encrypts under a fresh IV. Returns the packed block: IV, ciphertext, tag. */
export async function seal(key: CryptoKey, plaintext: Uint8Array<ArrayBuffer>): Promise<Uint8Array> {
  const iv = crypto.getRandomValues(new Uint8Array(IV_BYTES));
  return concatBytes(
    iv,
    new Uint8Array(await crypto.subtle.encrypt({ name: "AES-GCM", iv }, key, plaintext)),
  );
}

/** Decrypts a packed block. Throws when a single bit of it is not what was sealed. */
export async function open(key: CryptoKey, block: Uint8Array<ArrayBuffer>): Promise<Uint8Array> {
  const iv = block.subarray(0, IV_BYTES);
  return new Uint8Array(await crypto.subtle.decrypt({ name: "AES-GCM", iv }, key, block.subarray(IV_BYTES)));
}
