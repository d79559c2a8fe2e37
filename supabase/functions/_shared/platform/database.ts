/**
 * Calls to the database made safe: repeats what may be repeated, and turns every failure into an `ApiError`.
 *
 * This is the only place that knows SQLSTATEs. The two drivers (`database_direct.ts`, `database_rest.ts`) only
 * carry arguments and rows. Spec section 7; the refusals themselves are raised by `app.refuse` in SQL.
 */

import { ApiError, type ErrorCode, findCode } from "../errors.ts";
import type { Database, LogRecord, SqlArguments } from "./mod.ts";

/** What a driver does: carry one call. It throws `DriverError` and nothing else. */
export interface Driver {
  call(name: string, args: SqlArguments): Promise<unknown>;
  rows(name: string, args: SqlArguments, bytes: readonly string[]): Promise<unknown[]>;
}

/** A failed call: the SQLSTATE, or a word of our own when there was no answer. */
export class DriverError extends Error {
  /** SQLSTATE, `disconnected` (no answer came) or `busy` (no connection was free in time). */
  readonly code: string;
  readonly detail: string | undefined;

  constructor(code: string, message: string, detail?: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "DriverError";
    this.code = code;
    this.detail = detail;
  }
}

/** SQLSTATE of `app.refuse`. */
const REFUSED = "22ZKE";
const TRIES_MAX = 3;

/** Worth another try at once: serialization failure, deadlock, or a connection that broke or was being shut down. */
const REPEATABLE = /^(40001|40P01|08...|57P0[123]|disconnected)$/;
/** An outage or overload: also no connection, no resources, lock or statement timeout, read-only, I/O error. */
const UNAVAILABLE = /^(40001|40P01|08...|57P0[123]|disconnected|busy|53...|55P03|57014|25006|58...)$/;
/** Text that Postgres cannot hold. The parsers refuse it first; this is the second net. */
const UNSTORABLE = /^(22021|22P05)$/;

/** Builds the database that the functions see on top of a driver. */
export function createDatabase(driver: Driver, log: (record: LogRecord) => void): Database {
  async function attempt<T>(name: string, work: () => Promise<T>): Promise<T> {
    for (let tries = 1;; tries++) {
      try {
        return await work();
      } catch (error) {
        if (!(error instanceof DriverError)) throw error;
        if (REPEATABLE.test(error.code) && tries < TRIES_MAX) {
          await pause(tries);
          continue;
        }
        throw translate(error, name, log);
      }
    }
  }
  return {
    call: <T>(name: string, args: SqlArguments) => attempt(name, () => driver.call(name, args)) as Promise<T>,
    rows: <Row>(name: string, args: SqlArguments, bytes: readonly string[]) =>
      attempt(name, () => driver.rows(name, args, bytes)) as Promise<Row[]>,
  };
}

/** About 40 ms, then 160 ms, spread out so that colliding transactions do not meet again. */
function pause(tries: number): Promise<void> {
  const milliseconds = 10 * 4 ** tries * (0.5 + Math.random());
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

function translate(error: DriverError, name: string, log: (record: LogRecord) => void): ApiError {
  if (error.code === REFUSED && findCode(error.message) !== undefined) {
    return new ApiError(error.message as ErrorCode, error.detail ? JSON.parse(error.detail) : {});
  }
  if (UNSTORABLE.test(error.code)) {
    return new ApiError("invalid_json", { reason: "text that cannot be stored" });
  }
  const unavailable = UNAVAILABLE.test(error.code);
  // The message may quote a row; the SQLSTATE cannot.
  log({
    level: unavailable ? "warn" : "error",
    event: "database_error",
    function: name,
    sqlstate: error.code,
  });
  return new ApiError(unavailable ? "service_unavailable" : "internal_error", {}, { cause: error });
}
