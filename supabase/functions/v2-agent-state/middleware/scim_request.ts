/** What SCIM requests carry: an id, a page, a version, a body. RFC 7644, 3.4.2 and 3.14. */

import { z } from "zod";
import type { AppContext } from "../../_shared/context.ts";
import { ApiError } from "../../_shared/errors.ts";
import { parse, parseBody } from "../../_shared/middleware/parse.ts";
import { id } from "../../_shared/middleware/shapes.ts";
import { SCIM_COUNT_DEFAULT, SCIM_COUNT_MAX } from "../domain/limits.ts";
import { etagOf, type Fields, type Selection } from "../domain/scim_resource.ts";

/** The id in a path. */
export const SCIM_ID = z.object({ id: id("scim_resource_not_found") });
/** The schemas below let everything through: SCIM has its own rules for what is wrong, and its own words. */
const any = () => z.looseObject({});
export const USER_BODY = any();
export const GROUP_BODY = any();
export const PATCH_BODY = any();
export const SEARCH_BODY = any();
export const SELECTION_QUERY = z.looseObject({
  attributes: z.string().optional(),
  excludedAttributes: z.string().optional(),
});
export const SEARCH_QUERY = SELECTION_QUERY.extend({
  filter: z.string().optional(),
  startIndex: z.string().optional(),
  count: z.string().optional(),
});
/** The database counts with 32 bits. */
const START_MAX = 2 ** 31 - 1;
const NAMES_MAX = 100;
const WHOLE = /^-?[0-9]{1,15}$/;

/** The id in the path. One that is no id is as unknown as any other. Errors: `scim_resource_not_found`. */
export function readScimId(c: AppContext): string {
  const parsed = SCIM_ID.safeParse({ id: c.req.param("id") });
  if (!parsed.success) throw new ApiError("scim_resource_not_found");
  return parsed.data.id;
}

/** The body, any JSON object. Errors: `invalid_json`. */
export function readScimBody(c: AppContext, schema: typeof USER_BODY): Promise<Fields> {
  return parseBody(c, schema);
}

/** Which attributes the answer is to have. */
export function readSelection(c: AppContext): Selection {
  return selectionOf(SELECTION_QUERY.safeParse(c.req.query()).data ?? {});
}

/**
 * Reads a search from the query, or from the body of a POST. Numbers out of range mean the nearest that is in it.
 * Errors: `invalid_scim_value`.
 */
export async function readSearch(c: AppContext) {
  const from = c.req.method === "POST"
    ? await readScimBody(c, SEARCH_BODY)
    : await parse(c, SEARCH_QUERY, c.req.query()) as Fields;
  if (from.filter !== undefined && typeof from.filter !== "string") {
    throw new ApiError("invalid_scim_value", { detail: "filter is text" });
  }
  const start = readWhole(from, "startIndex") ?? 1;
  const count = readWhole(from, "count") ?? SCIM_COUNT_DEFAULT;
  return {
    filter: from.filter,
    start: clamp(start, 1, START_MAX),
    count: clamp(count, 0, SCIM_COUNT_MAX),
    selection: selectionOf(from),
  };
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

function clamp(value: number, min: number, max: number): number {
  return Math.min(Math.max(value, min), max);
}

function readWhole(from: Fields, name: string): number | undefined {
  const value = from[name];
  if (value === undefined || value === "") return undefined;
  const isPlain = typeof value === "string" || typeof value === "number";
  if (!isPlain || !WHOLE.test(String(value))) {
    throw new ApiError("invalid_scim_value", { detail: `${name} is a whole number` });
  }
  return Number(value);
}

function selectionOf({ attributes, excludedAttributes }: Fields): Selection {
  const only = names(attributes);
  return { only: only.length === 0 ? undefined : only, without: names(excludedAttributes) };
}

/** A list, or a text with commas. */
function names(value: unknown): string[] {
  const list = Array.isArray(value)
    ? value.filter((each) => typeof each === "string")
    : typeof value === "string"
    ? value.split(",")
    : [];
  return list.map((each) => each.trim()).filter(Boolean).slice(0, NAMES_MAX);
}
