/**
 * Reads a page of `GET /replay` while it comes. A page may have a thousand blocks of 256 KiB; held as one text it would
 * weigh half a gigabyte.
 */

import type { LogChunk } from "./wire.ts";

const CHUNKS_OPEN = /"chunks"\s*:\s*\[$/;

/** What a page says beside its chunks. */
export interface PageEnd {
  count?: number;
  has_more?: boolean;
}

/** Finds the objects of the array `chunks` in the text of a JSON object that comes piece by piece. */
export class ReplayParser {
  /** What came and is not used up: the beginning of a chunk, or of a string. */
  #text = "";
  /** Up to here `#text` has been looked at. */
  #at = 0;
  /** Objects and arrays that are open. */
  #depth = 0;
  /** The depth of the array's elements; undefined outside of it. */
  #elements: number | undefined;
  /** Where in `#text` the open chunk begins. */
  #start: number | undefined;
  /** The page without its chunks. */
  #rest = "";

  /** Takes the next piece; returns the chunks that it completes. Throws a SyntaxError on what is no JSON. */
  push(piece: string): LogChunk[] {
    this.#text += piece;
    const found: LogChunk[] = [];
    for (let end; (end = this.#endOfToken()) !== undefined;) {
      const token = this.#text.slice(this.#at, end);
      if (token === "{" || token === "[") this.#open(token);
      else if (token === "}" || token === "]") this.#close(token);
      else this.#keep(token);
      this.#at = end;
      if (this.#start !== undefined && this.#depth === this.#elements) {
        found.push(JSON.parse(this.#text.slice(this.#start, end)));
        this.#start = undefined;
      }
    }
    const used = this.#start ?? this.#at;
    this.#text = this.#text.slice(used);
    this.#at -= used;
    if (this.#start !== undefined) this.#start = 0;
    return found;
  }

  /** What the page says at its end. Throws a SyntaxError when it has not come to one. */
  end(): PageEnd {
    return JSON.parse(this.#rest + this.#text);
  }

  #open(token: string): void {
    if (this.#depth === this.#elements) this.#start = this.#at;
    this.#keep(token);
    this.#depth++;
    if (token === "[" && this.#depth === 2 && CHUNKS_OPEN.test(this.#rest)) this.#elements = this.#depth;
  }

  #close(token: string): void {
    this.#keep(token);
    this.#depth--;
    if (this.#elements !== undefined && this.#depth < this.#elements) this.#elements = undefined;
  }

  /** Outside of chunks, and but for the commas between them, the page is kept. */
  #keep(token: string): void {
    const between = token === "," && this.#depth === this.#elements;
    if (this.#start === undefined && !between) this.#rest += token;
  }

  /** Where the next token ends: a whole string, or one other character. Undefined when it has not come yet. */
  #endOfToken(): number | undefined {
    if (this.#at >= this.#text.length) return undefined;
    if (this.#text[this.#at] !== '"') return this.#at + 1;
    for (let end = this.#at; (end = this.#text.indexOf('"', end + 1)) >= 0;) {
      let escapes = 0;
      while (this.#text[end - 1 - escapes] === "\\") escapes++;
      if (escapes % 2 === 0) return end + 1;
    }
    return undefined;
  }
}
