/**
 * COPY over a connection of `pg`, in memory-sized parts.
 *
 * The packages that do this stream through the paused socket, which on Deno 2.9 stays paused: the second COPY of a
 * connection never ends (tried with pg-copy-streams 7.0 and postgres 3.4). Here nothing is ever paused; the caller asks
 * for as much as fits.
 */

import { once } from "node:events";
import { Buffer } from "node:buffer";
import type { Socket } from "node:net";
// @deno-types="npm:@types/pg@8.23.1"
import pg from "pg";

/** What `pg` calls on whatever is given to `query`, as far as COPY needs it. */
interface Submittable {
  submit(connection: Connection): void;
  handleCopyInResponse(connection: Connection): void;
  handleCopyData(message: { chunk: Uint8Array }): void;
  handleCommandComplete(): void;
  handleReadyForQuery(): void;
  handleError(error: Error): void;
}

interface Connection {
  stream: Socket;
  query(text: string): void;
  sendCopyFromChunk(chunk: Buffer): void;
  endCopyFrom(): void;
  sendCopyFail(message: string): void;
}

/** Runs `copy … to stdout` and returns all that it gives. */
export async function copyOut(client: pg.Client, statement: string): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  await submit(client, statement, {
    // What arrives is a view of a buffer that is used again.
    handleCopyData: ({ chunk }) => void parts.push(Buffer.from(chunk)),
    handleCopyInResponse: (connection) => connection.sendCopyFail("not a copy to stdout"),
  });
  return Buffer.concat(parts);
}

/** Runs `copy … from stdin` on the bytes of a stream. */
export async function copyIn(
  client: pg.Client,
  statement: string,
  source: AsyncIterable<Uint8Array>,
): Promise<void> {
  let failed = false;
  async function send(connection: Connection): Promise<void> {
    try {
      for await (const chunk of source) {
        if (failed) return;
        connection.sendCopyFromChunk(Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength));
        if (connection.stream.writableNeedDrain) await once(connection.stream, "drain");
      }
      connection.endCopyFrom();
    } catch (error) {
      connection.sendCopyFail(error instanceof Error ? error.message : "unreadable");
    }
  }
  await submit(client, statement, {
    handleCopyData() {},
    handleCopyInResponse: (connection) => void send(connection),
    onError: () => void (failed = true),
  });
}

type Handlers = Pick<Submittable, "handleCopyData" | "handleCopyInResponse"> & { onError?: () => void };

function submit(client: pg.Client, statement: string, { onError, ...handlers }: Handlers): Promise<void> {
  return new Promise((resolve, reject) => {
    const query: Submittable = {
      ...handlers,
      submit: (connection) => connection.query(statement),
      handleCommandComplete() {},
      handleError(error) {
        onError?.();
        reject(error);
      },
      handleReadyForQuery: () => resolve(),
    };
    client.query(query as unknown as pg.Submittable);
  });
}
