/**
 * What a vault's clients do before anything leaves them: the worked example of docs/vault.md.
 *
 * A vault has one AES-256-GCM key. It is split into shares with Shamir's scheme (`shamir-secret-sharing`, audited by
 * Cure53 and Zellic), and each share is wrapped for one person's RSA-OAEP public key. Each asset is sealed under a key
 * of its own, which is sealed under the vault's key. The server sees none of these keys and never combines shares.
 */

import { combine, split } from "npm:shamir-secret-sharing@0.0.4";
import { open, seal } from "../client/cipher.ts";

const RSA = {
  name: "RSA-OAEP",
  modulusLength: 2048,
  publicExponent: new Uint8Array([1, 0, 1]),
  hash: "SHA-256",
};
const KEY_BYTES = 32;

/** A key pair of an heir or guardian; the private key never leaves them. */
export interface KeyPair {
  pem: string;
  unwrap(wrapped: string): Promise<Uint8Array<ArrayBuffer>>;
}

/** Makes a key pair. */
export async function newKeyPair(): Promise<KeyPair> {
  const { publicKey, privateKey } = await crypto.subtle.generateKey(RSA, true, ["encrypt", "decrypt"]);
  const der = new Uint8Array(await crypto.subtle.exportKey("spki", publicKey));
  return {
    pem: `-----BEGIN PUBLIC KEY-----\n${der.toBase64()}\n-----END PUBLIC KEY-----\n`,
    async unwrap(wrapped) {
      return new Uint8Array(await crypto.subtle.decrypt(RSA, privateKey, Uint8Array.fromBase64(wrapped)));
    },
  };
}

/** Wraps a few bytes for whoever has the private key. */
export async function wrapFor(pem: string, bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  const der = Uint8Array.fromBase64(pem.replace(/-----[^-]+-----|\s/g, ""));
  const publicKey = await crypto.subtle.importKey("spki", der, RSA, false, ["encrypt"]);
  return new Uint8Array(await crypto.subtle.encrypt(RSA, publicKey, bytes)).toBase64();
}

/** A new key of a vault, as its 32 bytes. */
export function newVaultKey(): Uint8Array<ArrayBuffer> {
  return crypto.getRandomValues(new Uint8Array(KEY_BYTES));
}

/** Splits a vault's key into `shares`, any `threshold` of which make it again and fewer say nothing of it. */
export async function splitKey(
  key: Uint8Array<ArrayBuffer>,
  shares: number,
  threshold: number,
): Promise<Uint8Array<ArrayBuffer>[]> {
  return (await split(key, shares, threshold)).map((share) => new Uint8Array(share));
}

/** Makes the key again. From too few shares, or wrong ones, something else comes out: opening then fails. */
export async function combineShares(shares: Uint8Array<ArrayBuffer>[]): Promise<Uint8Array<ArrayBuffer>> {
  return new Uint8Array(await combine(shares));
}

/** An asset as it is stored: its ciphertext, and its own key sealed under the vault's key. */
export interface SealedAsset {
  ciphertext_b64: string;
  wrapped_key: string;
}

/** Seals an asset. */
export async function sealAsset(
  vaultKey: Uint8Array<ArrayBuffer>,
  plaintext: Uint8Array<ArrayBuffer>,
): Promise<SealedAsset> {
  const assetKey = newVaultKey();
  return {
    ciphertext_b64: (await seal(assetKey, plaintext)).toBase64(),
    wrapped_key: (await seal(vaultKey, assetKey)).toBase64(),
  };
}

/** Opens an asset. Throws when the vault's key is not the right one, or a bit of the asset has changed. */
export async function openAsset(
  vaultKey: Uint8Array<ArrayBuffer>,
  { ciphertext_b64, wrapped_key }: SealedAsset,
): Promise<Uint8Array> {
  const assetKey = await open(vaultKey, Uint8Array.fromBase64(wrapped_key));
  return await open(assetKey, Uint8Array.fromBase64(ciphertext_b64));
}
