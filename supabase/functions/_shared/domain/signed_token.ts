/**
 * Tokens that prove themselves: what they are for and about whom, signed. Nothing has to be stored for them, and equal
 * input makes the same token, so that a mail that is sent again is the same mail.
 */

import { Buffer } from "node:buffer";
import { createHmac, timingSafeEqual } from "node:crypto";

/** What a token lets its bearer do. One for another purpose does not do. */
export type TokenPurpose = "unsubscribe" | "confirm" | "invitation reminder";

const TOKEN = /^([0-9A-Za-z_-]{1,128})\.([0-9A-Za-z_-]{43})$/;

/** `subject` and its signature in base64url, with a dot between. */
export function signToken(purpose: TokenPurpose, subject: Uint8Array, secret: string): string {
  return `${Buffer.from(subject).toString("base64url")}.${
    sign(purpose, subject, secret).toString("base64url")
  }`;
}

/** Returns the subject of a token that one of the secrets has signed for this purpose, else undefined. */
export function readToken(
  purpose: TokenPurpose,
  token: string,
  secrets: readonly string[],
): Uint8Array | undefined {
  const [, encoded, signature] = TOKEN.exec(token) ?? [];
  if (encoded === undefined || signature === undefined) return undefined;
  const subject = Buffer.from(encoded, "base64url");
  const given = Buffer.from(signature, "base64url");
  const signed = secrets.some((secret) => timingSafeEqual(given, sign(purpose, subject, secret)));
  return signed ? subject : undefined;
}

/** 32 bytes that only the secret can make. It may serve other ends as well: the label keeps them apart. */
export function sign(purpose: TokenPurpose, subject: Uint8Array, secret: string): Buffer {
  return createHmac("sha256", secret).update(`agent-state ${purpose} v1\0`).update(subject).digest();
}
