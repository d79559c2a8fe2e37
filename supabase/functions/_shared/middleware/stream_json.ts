/** Answers with JSON that is made while it is sent: memory stays bounded, and a slow reader slows us down. */

import type { AppContext } from "../context.ts";

/** Text is gathered to about this length before it is sent, so that small items share a write. */
const WRITE_LENGTH = 64 * 1024;

/** An array of items with what stands before and after it. */
export interface JsonStream<T> {
  before: string;
  items: AsyncIterable<T>;
  toJson(item: T): string;
  after: string;
}

/**
 * Streams `before`, the items' JSON with commas between them, and `after`.
 *
 * The next item is made only when the client has taken the last, and none after it has gone. When an item cannot
 * be had any more the connection is broken off: the client sees an error, not a document that looks complete.
 */
export function streamJson<T>(c: AppContext, stream: JsonStream<T>): Response {
  const body = ReadableStream.from(encode(c, stream));
  return c.body(body, 200, { "content-type": "application/json" });
}

async function* encode<T>(c: AppContext, { before, items, toJson, after }: JsonStream<T>) {
  const encoder = new TextEncoder();
  let text = before;
  let separator = "";
  try {
    for await (const item of items) {
      text += separator + toJson(item);
      separator = ",";
      if (text.length >= WRITE_LENGTH) {
        yield encoder.encode(text);
        text = "";
      }
    }
  } catch (error) {
    c.var.platform.log({ level: "error", event: "stream_broken_off", request_id: c.var.requestId });
    throw error;
  }
  yield encoder.encode(text + after);
}
