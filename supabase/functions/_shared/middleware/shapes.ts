/**
 * The pieces that request schemas are made of. A message is the wire code of what is wrong. What JSON Schema cannot
 * see in a piece it says of itself: `wire` replaces what it would be documented as, other metadata is added to it.
 */

import { z } from "zod";
import { decodeBase64, decodedSizeMax, decodeHex } from "../domain/bytes.ts";
import type { ErrorCode } from "../errors.ts";

/** Text that Postgres can hold: well-formed, without NUL, 1 to `maxLength` UTF-16 units. */
export function text(maxLength: number) {
  return z.string().min(1).max(maxLength).refine(isStorable);
}

function isStorable(value: string): boolean {
  return value.isWellFormed() && !value.includes("\0");
}

/** Text that may be empty, of at most `charactersMax` characters (code points). */
export function freeText(charactersMax: number) {
  return z.string().refine((value) => isStorable(value) && [...value].length <= charactersMax);
}

/** A name: 1 to 128 characters (code points). Spec section 8. */
export const name = freeText(128).min(1);

/** A SHA-256 as 64 hex digits of either case; becomes its 32 bytes. */
export function hash(code?: ErrorCode) {
  return z.string(code).regex(/^[0-9a-fA-F]{64}$/, code).transform(decodeHex);
}

/** A sequence number in a body: a safe integer from 0. */
export const sequence = z.int("bad_sequence").min(0, "bad_sequence");

/** A non-negative integer in a path or query: decimal digits without a leading zero. */
export function digits(code?: ErrorCode) {
  return z.string().regex(/^(0|[1-9][0-9]{0,15})$/, code).transform(Number)
    .refine(Number.isSafeInteger, code).meta({ wire: { type: "integer", minimum: 0 } });
}

/** How many items a page may have: 1 to `max`. */
export function pageLimit(max: number) {
  return digits().refine((limit) => limit >= 1 && limit <= max)
    .meta({ wire: { type: "integer", minimum: 1, maximum: max } });
}

/** The place in a sequence after which a page begins; -1 is before the first. */
export const place = z.union([z.literal("-1").transform(() => -1), digits()])
  .meta({ wire: { type: "integer", minimum: -1 } });

/** Canonical base64 of 1 to `maxBytes` bytes; becomes the bytes. */
export function base64(maxBytes: number, tooLarge: ErrorCode) {
  return z.string().transform((value, context) => {
    const bytes = decodedSizeMax(value) - 2 > maxBytes ? undefined : decodeBase64(value);
    if (decodedSizeMax(value) - 2 > maxBytes || (bytes !== undefined && bytes.length > maxBytes)) {
      context.addIssue({ code: "custom", message: tooLarge });
    } else if (bytes === undefined || bytes.length === 0) {
      context.addIssue({ code: "custom", message: "invalid" });
    }
    return bytes ?? new Uint8Array();
  }).meta({ contentEncoding: "base64", minLength: 4, maxLength: Math.ceil(maxBytes / 3) * 4 });
}

/** A client's own timestamp: ISO 8601 with a date and a time, kept as it was sent. */
export const timestamp = text(64).refine((value) =>
  /^\d{4}-\d\d-\d\dT/.test(value) && !Number.isNaN(Date.parse(value))
).meta({ format: "date-time" });

const INSTANT = /^(\d{4}-\d\d-\d\d)(?:T\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(Z|[+-]\d\d:?\d\d)?)?$/;

/**
 * An ISO 8601 date, or date and time, of the years 1970 to 9999; UTC where it names no offset. Becomes the instant in
 * UTC, which Postgres reads as we do.
 */
export const instant = z.string().transform((value, context) => {
  const [, day, offset] = INSTANT.exec(value) ?? [];
  const date = new Date(value.includes("T") && offset === undefined ? `${value}Z` : value);
  // A day that its month does not have would quietly become one of the next month.
  const exists = day !== undefined && isDay(day) && !Number.isNaN(date.getTime());
  if (exists && date.getTime() >= 0 && date.getUTCFullYear() <= 9999) return date.toISOString();
  context.addIssue({ code: "custom", message: "invalid" });
  return "";
});

function isDay(day: string): boolean {
  const date = new Date(`${day}T00:00:00Z`);
  return !Number.isNaN(date.getTime()) && date.toISOString().startsWith(day);
}

/** An id in a path. One that is not even a UUID is as unknown as any other: `code` says of what. */
export function id(code: ErrorCode) {
  return z.uuid(code).toLowerCase();
}

/** A public key as PEM: opaque to us but for its frame. */
export const pem = text(8_192).regex(/^-----BEGIN [A-Z0-9 ]+-----\s[\s\S]+-----END [A-Z0-9 ]+-----\s*$/);

/** A wrapped key: opaque. */
export const wrappedKey = text(16_384);

/** An epoch of a team's key, where the caller names it: as far as Postgres counts in an `integer`. */
export const epoch = z.int().min(0).max(2_147_483_647).nullish();

/** A user's id: the subject of their sessions. */
export const memberId = text(512);

/** An e-mail address. */
export const email = z.email().max(320);

/** A team role. */
export const role = z.enum(["admin", "write", "read"]);
