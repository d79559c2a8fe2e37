/**
 * Calls Postgres functions over a connection of our own, with `pg`: one round trip a call.
 *
 * Bytes go out in binary. They come back as hex text: `pg` reads every result as UTF-8, so asking it for binary
 * results would corrupt them.
 */

import { Buffer } from "node:buffer";
// @deno-types="npm:@types/pg@8.23.1"
import pg from "pg";
import { createDatabase, type Driver, DriverError } from "./database.ts";
import type { Database, LogRecord, SqlArguments, SqlValue } from "./mod.ts";

/** How to connect. */
export interface DirectOptions {
  url: string;
  /** Connections at the most. One is right for an isolate that serves one request at a time. */
  poolSize: number;
  /** Whether statements are prepared under a name once a connection. Not through a transaction pooler. */
  prepared: boolean;
  /** Role to act as, when the login role may do more than it should. Not through a pooler. */
  role?: string;
  log: (record: LogRecord) => void;
}

const CONNECT_TIMEOUT_MS = 3_000;
/** Longer than every lock timeout inside the functions, shorter than any gateway's patience. */
const QUERY_TIMEOUT_MS = 20_000;
const BYTEA_OID = 17;
const BIGINT_OID = 20;
/** Every bigint of ours is a safe integer. */
const TYPES = {
  getTypeParser: (oid: number) => oid === BIGINT_OID ? Number : pg.types.getTypeParser(oid, "text"),
};

/** Opens a pool. Connections are made when they are needed, and replaced when they break. */
export function openDirectDatabase(options: DirectOptions): { db: Database; close(): Promise<void> } {
  const pool = new pg.Pool({
    connectionString: options.url,
    max: options.poolSize,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    query_timeout: QUERY_TIMEOUT_MS,
    keepAlive: true,
    application_name: "v2-agent-state",
    ...(options.role === undefined ? {} : { options: `-c role=${options.role}` }),
  });
  // A connection that breaks while idle is dropped by the pool; without a listener it would end the process.
  pool.on("error", () => options.log({ level: "warn", event: "database_connection_lost" }));
  return { db: createDatabase(createDriver(pool, options.prepared), options.log), close: () => pool.end() };
}

function createDriver(pool: pg.Pool, prepared: boolean): Driver {
  const statements = new Map<string, { name?: string; text: string }>();

  /** A function is always called with the same names, so its statement is written once. */
  function statementOf(kind: "call" | "rows", name: string, names: string[]) {
    const key = `${name}(${names.length})`;
    let statement = statements.get(key);
    if (statement === undefined) {
      const list = names.map((argument, i) => `${argument} => $${i + 1}`).join(", ");
      const text = kind === "call"
        ? `select api.${name}(${list}) as result`
        : `select * from api.${name}(${list})`;
      statements.set(key, statement = prepared ? { name: key, text } : { text });
    }
    return statement;
  }
  async function run(kind: "call" | "rows", name: string, args: SqlArguments) {
    const statement = statementOf(kind, name, Object.keys(args));
    try {
      const values = Object.values(args).map(encode);
      return (await pool.query({ ...statement, values, types: TYPES })).rows;
    } catch (error) {
      throw toDriverError(error);
    }
  }
  return {
    call: async (name, args) => (await run("call", name, args))[0].result,
    rows: (name, args) => run("rows", name, args),
  };
}

function encode(value: SqlValue): unknown {
  if (value instanceof Uint8Array) return asBuffer(value);
  if (!Array.isArray(value)) return value;
  if (typeof value[0] === "number") return `{${value.join()}}`;
  return value.some((item) => item instanceof Uint8Array) ? encodeBytesArray(value) : value;
}

/**
 * `bytea[]` in Postgres' binary form: dimensions, null flag, element type, length, lower bound; then for each
 * element its length (-1 for null) and bytes. As text it would be twice as long and need parsing.
 */
function encodeBytesArray(items: readonly (Uint8Array | null)[]): Buffer {
  const size = items.reduce((sum, item) => sum + 4 + (item?.length ?? 0), 20);
  const bytes = new Uint8Array(size);
  const view = new DataView(bytes.buffer);
  [1, items.includes(null) ? 1 : 0, BYTEA_OID, items.length, 1].forEach((n, i) => view.setInt32(4 * i, n));
  let offset = 20;
  for (const item of items) {
    view.setInt32(offset, item?.length ?? -1);
    offset += 4;
    if (item !== null) {
      bytes.set(item, offset);
      offset += item.length;
    }
  }
  return asBuffer(bytes);
}

/** A view of the same memory: what `pg` sends in binary. */
function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/** `pg` marks what the server said with a five-character SQLSTATE; everything else is about the connection. */
function toDriverError(error: unknown): DriverError {
  const { code, message, detail } = error as { code?: string; message: string; detail?: string };
  if (code !== undefined && /^[0-9A-Z]{5}$/.test(code) && !code.startsWith("E")) {
    return new DriverError(code, message, detail, { cause: error });
  }
  const busy = /timeout exceeded when trying to connect|Query read timeout/.test(message);
  return new DriverError(busy ? "busy" : "disconnected", message, undefined, { cause: error });
}
