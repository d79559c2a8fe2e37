/**
 * The two classes of credentials that agents carry, told apart and checked before the database is asked.
 *
 * `sov_live_` + 43 base62 characters (256 random bits) + 6 characters of checksum: paid, looked up by its hash.
 * `sov_proj_` + a lower-case UUID v4: free, asserts itself. Spec section 5. SCIM tokens are spelled like the first.
 */

import { sha256 } from "./bytes.ts";

const LIVE_PREFIX = "sov_live_";
const SCIM_PREFIX = "scim_";
const BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const SECRET_CHARACTERS = 43;
const CHECKSUM_CHARACTERS = 6;
const LIVE_KEY = /^sov_live_[0-9A-Za-z]+$/;
const PROJECT_TOKEN = /^sov_proj_[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

/** A credential as the database knows it: its kind, and the SHA-256 of the whole token. */
export interface Credential {
  kind: "live" | "project";
  hash: Uint8Array;
}

/**
 * Reads a bearer token. Returns undefined when it is not of a known form, and `"unknown"` for a `sov_live_` key
 * that nobody was ever given: its checksum is wrong.
 */
export function parseCredential(token: string): Credential | "unknown" | undefined {
  if (PROJECT_TOKEN.test(token)) return { kind: "project", hash: sha256(token) };
  if (!LIVE_KEY.test(token)) return undefined;
  return hasValidChecksum(LIVE_PREFIX, token) ? { kind: "live", hash: sha256(token) } : "unknown";
}

/** Makes a new `sov_live_` key from 32 or more random bytes (each byte beyond 247 is passed over for evenness). */
export function mintLiveKey(randomBytes: (count: number) => Uint8Array): string {
  return mint(LIVE_PREFIX, randomBytes);
}

/** The form of a key that may be shown: prefix and last four characters. */
export function maskKey(key: string): string {
  return `${LIVE_PREFIX}…${key.slice(-4)}`;
}

/** Makes a new `scim_` token, which directories provision with: a key of another name. */
export function mintScimToken(randomBytes: (count: number) => Uint8Array): string {
  return mint(SCIM_PREFIX, randomBytes);
}

/** The form of a SCIM token that may be shown. */
export function maskScimToken(token: string): string {
  return `${SCIM_PREFIX}…${token.slice(-4)}`;
}

/** Whether a bearer token is a SCIM token that somebody may have been given. */
export function isScimToken(token: string): boolean {
  return /^scim_[0-9A-Za-z]+$/.test(token) && hasValidChecksum(SCIM_PREFIX, token);
}

function mint(prefix: string, randomBytes: (count: number) => Uint8Array): string {
  let secret = "";
  while (secret.length < SECRET_CHARACTERS) {
    for (const byte of randomBytes(SECRET_CHARACTERS)) {
      if (byte < 248 && secret.length < SECRET_CHARACTERS) secret += BASE62[byte % 62];
    }
  }
  return prefix + secret + checksum(secret);
}

function hasValidChecksum(prefix: string, key: string): boolean {
  const body = key.slice(prefix.length);
  if (body.length !== SECRET_CHARACTERS + CHECKSUM_CHARACTERS) return false;
  return checksum(body.slice(0, SECRET_CHARACTERS)) === body.slice(SECRET_CHARACTERS);
}

/** The first 32 bits of the secret's SHA-256 in base62. It catches typing errors; it proves nothing. */
function checksum(secret: string): string {
  const digest = sha256(secret);
  let value = new DataView(digest.buffer, digest.byteOffset).getUint32(0);
  let text = "";
  for (let i = 0; i < CHECKSUM_CHARACTERS; i++) {
    text = BASE62[value % 62] + text;
    value = Math.floor(value / 62);
  }
  return text;
}
