/** Calls Postgres functions through the project's REST layer, with `supabase-js`: no connection to keep. */

import type { SupabaseClient } from "@supabase/supabase-js";
import { decodeHex, encodeHex } from "../domain/bytes.ts";
import { createDatabase, type Driver, DriverError } from "./database.ts";
import type { Database, LogRecord, SqlArguments, SqlValue } from "./mod.ts";

/** Answers of the REST layer itself (PostgREST) that mean it has no database at the moment. */
const NO_DATABASE = /^PGRST00[0-3]$/;

/** Builds the database on a client that acts as `service_role`. */
export function openRestDatabase(client: SupabaseClient, log: (record: LogRecord) => void): Database {
  const api = client.schema("api");
  async function call(name: string, args: SqlArguments): Promise<unknown> {
    const { data, error, status } = await api.rpc(name, encode(args));
    if (error === null && status < 300) return data;
    throw toDriverError(status, error?.code, error?.message, error?.details);
  }
  const driver: Driver = {
    call,
    async rows(name, args, bytes) {
      const rows = await call(name, args) as Record<string, unknown>[];
      for (const row of rows) {
        for (const column of bytes) row[column] = decodeBytea(row[column]);
      }
      return rows;
    },
  };
  return createDatabase(driver, log);
}

/** JSON has no bytes: `bytea` travels as `\x` and hex digits. */
function encode(args: SqlArguments): Record<string, unknown> {
  const one = (value: unknown) => value instanceof Uint8Array ? `\\x${encodeHex(value)}` : value;
  const entries = Object.entries(args).map(([name, value]): [string, unknown] => [name, encodeOne(value)]);
  function encodeOne(value: SqlValue): unknown {
    return Array.isArray(value) ? value.map(one) : one(value);
  }
  return Object.fromEntries(entries);
}

function decodeBytea(value: unknown): Uint8Array | null {
  return typeof value === "string" ? decodeHex(value.slice(2)) : null;
}

/** Without a SQLSTATE, a 5xx or no status at all is the way to the database being broken, not the database. */
function toDriverError(
  status: number,
  code = "",
  message = "no answer",
  detail?: string | null,
): DriverError {
  if (/^[0-9A-Z]{5}$/.test(code)) return new DriverError(code, message, detail ?? undefined);
  const away = status === 0 || status >= 502 || NO_DATABASE.test(code);
  return new DriverError(away ? "disconnected" : code || `http_${status}`, message);
}
