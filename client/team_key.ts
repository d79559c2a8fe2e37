/**
 * A team's keys, and how they are handed to its members. The format is in README.md, "Team keys".
 *
 * Memory is encrypted with the team's AES-256 key of the current epoch. Each member holds a ring of the keys of all
 * epochs that they may read, wrapped to their public key: P-256 ECDH with an ephemeral key, HKDF-SHA-256, AES-KW. All of
 * it is in every WebCrypto.
 */

import { type Bytes, concatBytes, decodeBase64, encodeBase64, encodeText } from "./bytes.ts";
import { generateKey, importKey } from "./cipher.ts";
import { IntegrityError } from "./errors.ts";
import { sha256Hex } from "./hash_chain.ts";

const CURVE = { name: "ECDH", namedCurve: "P-256" };
const VERSION = 1;
const POINT_BYTES = 65;
const EPOCH_BYTES = 4;
const HEADER_BYTES = 1 + POINT_BYTES + EPOCH_BYTES;
/** AES-KW adds 8 bytes. */
const WRAPPED_BYTES = 40;
/** Epochs of a ring: as many as fit into the 16,384 characters that the service takes. */
const EPOCHS_MAX = 300;
const CONTEXT = encodeText("v2-agent-state/team-key/1");
const PEM = /^-----BEGIN PUBLIC KEY-----\s+([A-Za-z0-9+/=\s]+)-----END PUBLIC KEY-----\s*$/;

/** What a member unwraps with, and what others wrap for them with. */
export interface MemberKeys {
  privateKey: CryptoKey;
  /** SPKI in PEM: give it to an admin. */
  publicKey: string;
}

/** The keys of a team's epochs, the newest under `epoch`. */
export interface KeyRing {
  epoch: number;
  keys: ReadonlyMap<number, CryptoKey>;
}

/** Makes a member's keys. The private one can be exported only when asked for; IndexedDB can keep it either way. */
export async function generateMemberKeys(extractable = false): Promise<MemberKeys> {
  const pair = await crypto.subtle.generateKey(CURVE, extractable, ["deriveBits"]) as CryptoKeyPair;
  const der = new Uint8Array(await crypto.subtle.exportKey("spki", pair.publicKey));
  const lines = encodeBase64(der).match(/.{1,64}/g)!.join("\n");
  return {
    privateKey: pair.privateKey,
    publicKey: `-----BEGIN PUBLIC KEY-----\n${lines}\n-----END PUBLIC KEY-----\n`,
  };
}

/** A member's keys as text, to be kept where only its owner can read. The private key must be extractable. */
export async function exportMemberKeys({ privateKey, publicKey }: MemberKeys): Promise<string> {
  const pkcs8 = new Uint8Array(await crypto.subtle.exportKey("pkcs8", privateKey));
  return JSON.stringify({ private_key: encodeBase64(pkcs8), public_key: publicKey });
}

/** The keys that {@link exportMemberKeys} gave. */
export async function importMemberKeys(text: string, extractable = false): Promise<MemberKeys> {
  const { private_key, public_key } = JSON.parse(text) as { private_key: string; public_key: string };
  const pkcs8 = decodeBase64(private_key);
  const privateKey = await crypto.subtle.importKey("pkcs8", pkcs8, CURVE, extractable, ["deriveBits"]);
  return { privateKey, publicKey: public_key };
}

/** A public key's fingerprint, to compare by another way than the service: 64 hex digits in groups of 8. */
export function fingerprint(publicKey: string): string {
  return sha256Hex(readPem(publicKey)).match(/.{8}/g)!.join(" ");
}

/** A ring with one key of epoch 0. */
export async function newKeyRing(): Promise<KeyRing> {
  return await nextKeyRing({ epoch: -1, keys: new Map() });
}

/** The same ring with a fresh key for the next epoch. It holds the newest 300. */
export async function nextKeyRing(ring: KeyRing): Promise<KeyRing> {
  const epoch = ring.epoch + 1;
  const kept = [...ring.keys].filter(([each]) => each > epoch - EPOCHS_MAX);
  return { epoch, keys: new Map([[epoch, await importKey(generateKey(), true)], ...kept]) };
}

/** Wraps a ring for a member. Returns base64. */
export async function wrapKeyRing(ring: KeyRing, publicKey: string): Promise<string> {
  const recipient = await importPublic(readPem(publicKey));
  const ephemeral = await crypto.subtle.generateKey(CURVE, true, ["deriveBits"]) as CryptoKeyPair;
  const point = await exportPoint(ephemeral.publicKey);
  const epoch = encodeEpoch(ring.epoch);
  const context = concatBytes(CONTEXT, point, await exportPoint(recipient), epoch);
  const wrapping = await deriveWrappingKey(ephemeral.privateKey, recipient, context, "wrapKey");
  const wrapped: Bytes[] = [];
  for (let each = ring.epoch; ring.keys.has(each); each--) {
    const key = ring.keys.get(each)!;
    wrapped.push(new Uint8Array(await crypto.subtle.wrapKey("raw", key, wrapping, "AES-KW")));
  }
  return encodeBase64(concatBytes(Uint8Array.of(VERSION), point, epoch, ...wrapped));
}

/** Unwraps a ring. Throws {@link IntegrityError} when it was wrapped for another key, or changed. */
export async function unwrapKeyRing(wrapped: string, own: MemberKeys): Promise<KeyRing> {
  try {
    const bytes = decodeBase64(wrapped);
    const count = (bytes.length - HEADER_BYTES) / WRAPPED_BYTES;
    if (bytes[0] !== VERSION || count < 1 || !Number.isInteger(count)) throw new TypeError("Not a key ring");
    const point = bytes.slice(1, 1 + POINT_BYTES);
    const epoch = bytes.slice(1 + POINT_BYTES, HEADER_BYTES);
    const mine = await exportPoint(await importPublic(readPem(own.publicKey)));
    const sender = await crypto.subtle.importKey("raw", point, CURVE, true, []);
    const context = concatBytes(CONTEXT, point, mine, epoch);
    const wrapping = await deriveWrappingKey(own.privateKey, sender, context, "unwrapKey");
    const newest = new DataView(epoch.buffer).getUint32(0);
    const keys = new Map<number, CryptoKey>();
    for (let i = 0; i < count; i++) {
      const start = HEADER_BYTES + i * WRAPPED_BYTES;
      keys.set(newest - i, await unwrapOne(bytes.slice(start, start + WRAPPED_BYTES), wrapping));
    }
    return { epoch: newest, keys };
  } catch (cause) {
    throw new IntegrityError(
      "decryption_failed",
      "The team's key was wrapped for another member, or changed",
      {
        cause,
      },
    );
  }
}

async function unwrapOne(bytes: Bytes, wrapping: CryptoKey): Promise<CryptoKey> {
  const usages: KeyUsage[] = ["encrypt", "decrypt"];
  return await crypto.subtle.unwrapKey("raw", bytes, wrapping, "AES-KW", "AES-GCM", true, usages);
}

async function deriveWrappingKey(
  privateKey: CryptoKey,
  publicKey: CryptoKey,
  info: Bytes,
  usage: "wrapKey" | "unwrapKey",
): Promise<CryptoKey> {
  const shared = await crypto.subtle.deriveBits({ name: "ECDH", public: publicKey }, privateKey, 256);
  const base = await crypto.subtle.importKey("raw", shared, "HKDF", false, ["deriveBits"]);
  const how = { name: "HKDF", hash: "SHA-256", salt: new Uint8Array(32), info };
  const bits = await crypto.subtle.deriveBits(how, base, 256);
  return await crypto.subtle.importKey("raw", bits, "AES-KW", false, [usage]);
}

async function importPublic(der: Bytes): Promise<CryptoKey> {
  return await crypto.subtle.importKey("spki", der, CURVE, true, []);
}

async function exportPoint(key: CryptoKey): Promise<Bytes> {
  return new Uint8Array(await crypto.subtle.exportKey("raw", key));
}

function readPem(text: string): Bytes {
  const body = PEM.exec(text)?.[1];
  if (body === undefined) throw new TypeError("Not a public key in PEM");
  return decodeBase64(body.replaceAll(/\s/g, ""));
}

function encodeEpoch(epoch: number): Bytes {
  const bytes = new Uint8Array(EPOCH_BYTES);
  new DataView(bytes.buffer).setUint32(0, epoch);
  return bytes;
}
