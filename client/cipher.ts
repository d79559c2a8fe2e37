/** AES-256-GCM as every client of the service uses it: a block is IV (12 bytes), ciphertext, tag (16 bytes). */

import { type Bytes, concatBytes, decodeBase64, encodeText, randomBytes } from "./bytes.ts";
import { IntegrityError } from "./errors.ts";

const KEY_BYTES = 32;
const IV_BYTES = 12;
const TAG_BYTES = 16;
/** What PBKDF2 costs an attacker a guess; OWASP's figure for SHA-256. */
const PBKDF2_ROUNDS = 600_000;

/** Bytes that sealing adds. */
export const SEAL_OVERHEAD = IV_BYTES + TAG_BYTES;

/** A key as callers hold it: imported, or its 32 bytes. */
export type Key = CryptoKey | Uint8Array;

/** 32 fresh bytes for a key. Whoever has them can read everything; without them nobody can. */
export function generateKey(): Bytes {
  return randomBytes(KEY_BYTES);
}

/** Makes a key of its 32 bytes, for encryption and decryption. `extractable` lets it be wrapped for others. */
export async function importKey(bytes: Uint8Array, extractable = false): Promise<CryptoKey> {
  if (bytes.length !== KEY_BYTES) throw new TypeError(`A key has ${KEY_BYTES} bytes, not ${bytes.length}`);
  const usages: KeyUsage[] = ["encrypt", "decrypt"];
  return await crypto.subtle.importKey("raw", Uint8Array.from(bytes), "AES-GCM", extractable, usages);
}

/**
 * Stretches a passphrase (PBKDF2-HMAC-SHA-256, 600,000 rounds) into a key's 32 bytes. `saltBase64` is the account's,
 * from `GET /kdf-salt`.
 */
export async function deriveKey(passphrase: string, saltBase64: string): Promise<Bytes> {
  const secret = encodeText(passphrase.normalize("NFKC"));
  const base = await crypto.subtle.importKey("raw", secret, "PBKDF2", false, ["deriveBits"]);
  const salt = decodeBase64(saltBase64);
  const how = { name: "PBKDF2", hash: "SHA-256", salt, iterations: PBKDF2_ROUNDS };
  return new Uint8Array(await crypto.subtle.deriveBits(how, base, KEY_BYTES * 8));
}

/** Encrypts under a fresh random IV. Returns the packed block. */
export async function seal(key: Key, plaintext: Uint8Array): Promise<Bytes> {
  const iv = randomBytes(IV_BYTES);
  const usable = await usableKey(key);
  const sealed = await crypto.subtle.encrypt({ name: "AES-GCM", iv }, usable, Uint8Array.from(plaintext));
  return concatBytes(iv, new Uint8Array(sealed));
}

/** Decrypts a packed block. Throws {@link IntegrityError} when the key is another or a single bit has changed. */
export async function open(key: Key, block: Uint8Array): Promise<Bytes> {
  const iv = Uint8Array.from(block.subarray(0, IV_BYTES));
  const sealed = Uint8Array.from(block.subarray(IV_BYTES));
  const usable = await usableKey(key);
  try {
    return new Uint8Array(await crypto.subtle.decrypt({ name: "AES-GCM", iv }, usable, sealed));
  } catch (cause) {
    const message = "This was encrypted with another key, or it has been changed";
    throw new IntegrityError("decryption_failed", message, { cause });
  }
}

/** The key as WebCrypto takes it. Who uses it often imports it once. */
export async function usableKey(key: Key): Promise<CryptoKey> {
  return key instanceof Uint8Array ? await importKey(key) : key;
}
