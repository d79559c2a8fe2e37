/** The pieces that answers are made of, each with a value to show. */

import { z } from "zod";

/** An id. */
export function uuid(example = "3f8e1c52-9d1b-4c55-8a7e-5b0f2f6c1a90") {
  return z.string().meta({ format: "uuid", examples: [example] });
}

/** An instant in UTC, to the millisecond. */
export const time = z.string().meta({ format: "date-time", examples: ["2026-11-20T12:00:00.000Z"] });

/** A SHA-256 in lower-case hex. */
export function sha256(example = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08") {
  return z.string().regex(/^[0-9a-f]{64}$/).meta({ examples: [example] });
}

/** Bytes in base64. */
export function bytes(example: string) {
  return z.string().regex(/^[A-Za-z0-9+/]*={0,2}$/).meta({ contentEncoding: "base64", examples: [example] });
}

/** A number of things, or a position: a whole number from 0. */
export function count(example = 0) {
  return z.int().min(0).meta({ examples: [example] });
}

/** Any text. */
export function words(example: string) {
  return z.string().meta({ examples: [example] });
}

/** An address. */
export function url(example: string) {
  return z.string().meta({ format: "uri", examples: [example] });
}

/** What the two functions answer to `GET /health`. */
export const HEALTH = z.object({ status: z.literal("ok") }).meta({ id: "Health" });
