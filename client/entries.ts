/**
 * Values of any size in a replication log. A value's JSON is cut into parts, one record each; a reader puts it together
 * again when it has them all. Records of other clients are passed over.
 */

import { canonicalize, type Json } from "./canonical_json.ts";
import type { MemoryRecord } from "./block.ts";

/**
 * UTF-16 units of one part: a block's worth. JSON has no control characters, so that in a record it at most doubles, or
 * takes three bytes a unit; either fits into the largest block.
 */
const PART_LENGTH = 64_000;

/** A value in the log. */
export interface Entry {
  id: string;
  kind: string;
  value: Json;
}

/** The records of a value. Appended together they are kept together or not at all. */
export function toRecords(kind: string, value: Json, id: string = crypto.randomUUID()): MemoryRecord[] {
  const parts = cut(canonicalize(value));
  const timestamp = String(Date.now());
  return parts.map((text, part) => ({
    id: `${id}/${part}`,
    text,
    timestamp,
    kind,
    part,
    parts: parts.length,
  }));
}

/** Puts values of some kinds together from the records of a log, in the order of their last parts. */
export class Assembler {
  readonly #matches: (kind: string) => boolean;
  readonly #open = new Map<string, string[]>();

  constructor(matches: (kind: string) => boolean) {
    this.#matches = matches;
  }

  /** Whether no value is waiting for more parts. */
  get complete(): boolean {
    return this.#open.size === 0;
  }

  /** Takes the next record; returns the value that it completes. */
  add(record: MemoryRecord): Entry | undefined {
    const { kind, part, parts, text } = record;
    if (typeof kind !== "string" || typeof part !== "number" || !this.#matches(kind)) return undefined;
    const id = record.id.slice(0, record.id.lastIndexOf("/"));
    const texts = part === 0 ? [] : this.#open.get(id);
    // A part without those before it: the value was dropped when two devices had diverged.
    if (texts?.length !== part) return undefined;
    texts.push(text);
    this.#open.set(id, texts);
    if (texts.length !== parts) return undefined;
    this.#open.delete(id);
    return { id, kind, value: JSON.parse(texts.join("")) };
  }
}

/** Cuts a text without splitting a character in two. */
function cut(text: string): string[] {
  const parts: string[] = [];
  for (let start = 0; start < text.length || parts.length === 0;) {
    let end = Math.min(start + PART_LENGTH, text.length);
    if (end < text.length && /[\ud800-\udbff]/.test(text[end - 1]!)) end--;
    parts.push(text.slice(start, end));
    start = end;
  }
  return parts;
}
