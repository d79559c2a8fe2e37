/** Requests and answers in SCIM's own shapes. RFC 7644, section 3. */

import { createMiddleware } from "hono/factory";
import type { AppContext, AppEnv } from "../../_shared/context.ts";
import { sha256 } from "../../_shared/domain/bytes.ts";
import { isScimToken } from "../../_shared/domain/credential.ts";
import { ApiError, findCode } from "../../_shared/errors.ts";
import { readBearerToken } from "../../_shared/middleware/bearer.ts";
import { etagOf, type Fields } from "../domain/scim_resource.ts";

const MEDIA_TYPE = "application/scim+json";
const ERROR_SCHEMA = "urn:ietf:params:scim:api:messages:2.0:Error";

/** What SCIM calls our codes. RFC 7644, table 9. */
const SCIM_TYPES: Record<string, string> = {
  invalid_json: "invalidSyntax",
  invalid_scim_filter: "invalidFilter",
  invalid_scim_path: "invalidPath",
  invalid_scim_syntax: "invalidSyntax",
  invalid_scim_value: "invalidValue",
  scim_mutability: "mutability",
  scim_no_target: "noTarget",
  scim_uniqueness: "uniqueness",
};

/** Answers refusals as SCIM errors, also those of routes that do not exist. */
export const speakScim = createMiddleware<AppEnv>(async function speakScim(c, next) {
  c.set("answerRefusal", answerScimError);
  await next();
});

/**
 * Sets `scimTokenHash`. Whether the token is known and not revoked is decided by the operation's own SQL function.
 * Errors: `missing_or_invalid_bearer_token`, `invalid_scim_token`.
 */
export const requireScimToken = createMiddleware<AppEnv>(async function requireScimToken(c, next) {
  const token = readBearerToken(c);
  if (!isScimToken(token)) throw new ApiError("invalid_scim_token");
  c.set("scimTokenHash", sha256(token));
  await next();
});

/** A SCIM answer. With a version it carries an ETag, and where it was made also its address. */
export function answerScim(c: AppContext, body: Fields, status: 200 | 201 = 200, version?: number): Response {
  const { location } = (body.meta ?? {}) as { location?: string };
  return c.body(JSON.stringify(body), status, {
    "content-type": MEDIA_TYPE,
    ...(version === undefined ? {} : { etag: etagOf(version) }),
    ...(status === 201 && location !== undefined ? { location } : {}),
  });
}

/** The address of `/scim/v2`, as clients reach it. */
export function scimBase(c: AppContext): string {
  const { publicUrl, supabaseUrl } = c.var.settings;
  const origin = publicUrl ?? supabaseUrl?.replace(/\/+$/, "");
  if (origin !== undefined) return `${origin}/functions/v1/v2-agent-state/scim/v2`;
  const url = new URL(c.req.url);
  return url.origin + url.pathname.slice(0, url.pathname.indexOf("/scim/v2")) + "/scim/v2";
}

/** A stranger is told that they are one, whatever else is wrong with what they sent. */
async function answerScimError(error: ApiError, c: AppContext): Promise<Response> {
  const isFault = error.status === 400 || error.status === 413;
  const shown = isFault && c.var.scimTokenHash !== undefined ? await checkFirst(error, c) : error;
  const { detail, attribute } = shown.details;
  const sentence = detail ?? findCode(shown.code)?.when.replaceAll("`", "") ?? "";
  const about = typeof attribute === "string" ? ` (${attribute})` : "";
  const scimType = SCIM_TYPES[shown.code];
  const body = {
    schemas: [ERROR_SCHEMA],
    status: String(shown.status),
    ...(scimType === undefined ? {} : { scimType }),
    detail: `${shown.code}: ${sentence}${about}`,
  };
  return c.body(JSON.stringify(body), shown.status, { ...shown.headers, "content-type": MEDIA_TYPE });
}

function checkFirst(error: ApiError, c: AppContext): Promise<ApiError> {
  return c.var.platform.db.call("check_scim_token", { p_token_hash: c.var.scimTokenHash }).then(
    () => error,
    (refused) => refused instanceof ApiError ? refused : error,
  );
}
