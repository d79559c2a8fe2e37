/** Bodies, queries and path parameters: a value of the schema's type, or the exact wire code of what is wrong. */

import { bodyLimit } from "hono/body-limit";
import type { z } from "zod";
import type { AppContext } from "../context.ts";
import { ApiError, type ErrorCode, findCode } from "../errors.ts";
import { credentialArguments } from "./require_api_key.ts";
import { timed } from "./timing.ts";

/**
 * Refuses a body over `maxBytes` before it is read, or while it is read when its length was not announced. What it
 * refuses with can be read from it: the reference is made from what is mounted.
 */
export function limitBody(maxBytes: number, code: ErrorCode = "body_too_large") {
  const counted = bodyLimit({
    maxSize: maxBytes,
    onError: (c) => refuse(c as AppContext, code, { limit_bytes: maxBytes }),
  });
  const limit: typeof counted = async (c, next) => {
    // Looking at the body makes a stream of it, which is slower to read: where the length is told it is left alone.
    const announced = isAnnounced(c as AppContext) ? Number(c.req.header("content-length")) : Infinity;
    return announced <= maxBytes ? await next() : await counted(c, next);
  };
  return Object.assign(limit, { maxBytes, code });
}

/** Whether HTTP itself holds the body to the length that its header names. */
function isAnnounced(c: AppContext): boolean {
  const length = c.req.header("content-length");
  return length !== undefined && /^[0-9]+$/.test(length) && c.req.header("transfer-encoding") === undefined;
}

/** Reads a JSON object and parses it. Errors: `invalid_json`, and what {@link parse} answers. */
export async function parseBody<T extends z.ZodType>(c: AppContext, schema: T): Promise<z.output<T>> {
  const body = await timed(c, "parse", async () => decodeObject(await c.req.arrayBuffer()));
  if (body === undefined) return await refuse(c, "invalid_json");
  return await timed(c, "decode", () => parse(c, schema, body));
}

/**
 * Parses a value of the request (a body, the query, path parameters). A schema's message may be a wire code;
 * anything else wrong is `missing_field:<field>` or `invalid_field:<field>`. A field inside an array comes with
 * `index`. Absent fields are named before wrong ones.
 */
export async function parse<T extends z.ZodType>(
  c: AppContext,
  schema: T,
  value: unknown,
): Promise<z.output<T>> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const faults = parsed.error.issues.map((issue) => toFault(issue, value));
  const fault = faults.find((each) => each.code.startsWith("missing_")) ?? faults[0]!;
  return await refuse(c, fault.code, fault.details);
}

/**
 * Names what is wrong with a request, but only to a caller whose credential is good: a stranger is told that they
 * are one. Costs a round trip that a good request does not make.
 */
export async function refuse(
  c: AppContext,
  code: ErrorCode,
  details: Record<string, unknown> = {},
): Promise<never> {
  if (c.var.credential !== undefined) {
    await c.var.platform.db.call("check_credential", credentialArguments(c));
  }
  throw new ApiError(code, details);
}

function decodeObject(bytes: ArrayBuffer): object | undefined {
  try {
    const value = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
    return typeof value === "object" && value !== null && !Array.isArray(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

const NAME = /^[A-Za-z_][A-Za-z0-9_]{0,63}$/;

function toFault(
  issue: z.core.$ZodIssue,
  value: unknown,
): { code: ErrorCode; details: Record<string, unknown> } {
  // A record's keys are the client's own: a code names only what can be the name of a field.
  const field = String(issue.path.findLast((step) => typeof step === "string" && NAME.test(step)) ?? "body");
  const index = issue.path.find((step) => typeof step === "number");
  const details = index === undefined ? {} : { index };
  // Two codes of the spec name an absence of their own.
  if (issue.message.startsWith("missing_") && findCode(issue.message) !== undefined) {
    return { code: issue.message as ErrorCode, details };
  }
  if (valueAt(value, issue.path) === undefined) return { code: `missing_field:${field}`, details };
  if (findCode(issue.message) !== undefined) return { code: issue.message as ErrorCode, details };
  return { code: `invalid_field:${field}`, details };
}

function valueAt(value: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce<unknown>(
    (inner, step) => typeof inner === "object" && inner !== null ? Reflect.get(inner, step) : undefined,
    value,
  );
}
