/**
 * Bytes as text and back, and their digest.
 *
 * `node:buffer` and `node:crypto` instead of web APIs: on blocks of 4 KiB they decode four times, encode a hundred
 * times and hash ten times as fast, and both run on every Deno that we support.
 */

import { Buffer } from "node:buffer";
import { createHash } from "node:crypto";

/**
 * Decodes canonical base64 (RFC 4648 section 4: padded, no white space, no stray bits).
 * Returns undefined for anything else, so that equal bytes have one spelling only.
 */
export function decodeBase64(text: string): Uint8Array | undefined {
  if (text.length % 4 !== 0) return undefined;
  const padding = text.endsWith("==") ? 2 : text.endsWith("=") ? 1 : 0;
  const bytes = decodeLeniently(text);
  // Whatever the decoder passed over is missing. Beyond that it takes the other alphabet, and stray bits at the end.
  if (bytes?.length !== text.length / 4 * 3 - padding) return undefined;
  if (text.includes("-") || text.includes("_")) return undefined;
  const end = bytes.subarray(Math.max(bytes.length - 3 + padding, 0));
  return end.toString("base64") === text.slice(-4) ? bytes : undefined;
}

/** Deno 2.1 throws on some of what later ones read leniently. A pattern for both would cost more than decoding. */
function decodeLeniently(text: string): Buffer | undefined {
  try {
    return Buffer.from(text, "base64");
  } catch {
    return undefined;
  }
}

/** Encodes bytes as padded base64 without line breaks. */
export function encodeBase64(bytes: Uint8Array): string {
  return asBuffer(bytes).toString("base64");
}

/** Bytes that canonical base64 of this length stands for, at the most. */
export function decodedSizeMax(text: string): number {
  return Math.floor(text.length / 4) * 3;
}

/** Decodes an even number of hex digits of either case. The caller has checked that they are hex. */
export function decodeHex(text: string): Uint8Array {
  return Buffer.from(text, "hex");
}

/** Encodes bytes as lower-case hex. */
export function encodeHex(bytes: Uint8Array): string {
  return asBuffer(bytes).toString("hex");
}

/** SHA-256 of bytes, or of a string's UTF-8. */
export function sha256(data: Uint8Array | string): Uint8Array {
  return createHash("sha256").update(data).digest();
}

/** Whether two byte strings are equal. */
export function equalBytes(a: Uint8Array, b: Uint8Array): boolean {
  return asBuffer(a).equals(b);
}

/** A view of the same memory, not a copy. */
function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
