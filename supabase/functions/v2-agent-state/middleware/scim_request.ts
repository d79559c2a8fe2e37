/** What SCIM requests carry: an id, a page, a version, a body. RFC 7644, 3.4.2 and 3.14. */

import { z } from "zod";
import type { AppContext } from "../../_shared/context.ts";
import { ApiError } from "../../_shared/errors.ts";
import { parseBody } from "../../_shared/middleware/parse.ts";
import { id } from "../../_shared/middleware/shapes.ts";
import { SCIM_COUNT_DEFAULT, SCIM_COUNT_MAX } from "../domain/limits.ts";
import { etagOf, type Fields, type Selection } from "../domain/scim_resource.ts";

const ID = id("scim_resource_not_found");
const ANY = z.custom<Fields>();
const WHOLE = /^-?[0-9]{1,15}$/;

/** The id in the path. One that is no id is as unknown as any other. Errors: `scim_resource_not_found`. */
export function readScimId(c: AppContext): string {
  const parsed = ID.safeParse(c.req.param("id"));
  if (!parsed.success) throw new ApiError("scim_resource_not_found");
  return parsed.data;
}

/** The body, any JSON object. Errors: `invalid_json`. */
export function readScimBody(c: AppContext): Promise<Fields> {
  return parseBody(c, ANY);
}

/** Which attributes the answer is to have. */
export function readSelection(c: AppContext): Selection {
  const only = c.req.query("attributes");
  return {
    only: only === undefined || only.trim() === "" ? undefined : names(only),
    without: names(c.req.query("excludedAttributes") ?? ""),
  };
}

/** Which page of a search; numbers out of range mean the nearest that is in it. Errors: `invalid_scim_value`. */
export function readPage(c: AppContext): { start: number; count: number } {
  const start = Math.max(1, readWhole(c, "startIndex") ?? 1);
  const count = readWhole(c, "count") ?? SCIM_COUNT_DEFAULT;
  return { start: Math.min(start, 2 ** 31 - 1), count: Math.min(Math.max(0, count), SCIM_COUNT_MAX) };
}

/** The version that a change is made for; undefined for any. Errors: `precondition_failed` for what is no version. */
export function readIfMatch(c: AppContext): number | undefined {
  const header = c.req.header("if-match")?.trim();
  if (header === undefined || header === "*") return undefined;
  const version = /^(?:W\/)?"([0-9]{1,9})"$/.exec(header)?.[1];
  if (version === undefined) throw new ApiError("precondition_failed");
  return Number(version);
}

/** Whether the client has this version already. */
export function hasVersion(c: AppContext, version: number): boolean {
  const known = c.req.header("if-none-match")?.split(",").map((each) => each.trim().replace(/^W\//, ""));
  return known?.some((each) => each === "*" || `W/${each}` === etagOf(version)) ?? false;
}

function readWhole(c: AppContext, name: string): number | undefined {
  const text = c.req.query(name);
  if (text === undefined || text === "") return undefined;
  if (!WHOLE.test(text)) throw new ApiError("invalid_scim_value", { detail: `${name} is a whole number` });
  return Number(text);
}

function names(text: string): string[] {
  return text.split(",").map((each) => each.trim()).filter(Boolean).slice(0, 100);
}
