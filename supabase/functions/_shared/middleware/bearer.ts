/** The Authorization header. Spec section 5, rule 2. */

import type { AppContext } from "../context.ts";
import { ApiError } from "../errors.ts";

const BEARER = /^Bearer +([^ ]+) *$/i;

/** The bearer token of a request. Errors: `missing_or_invalid_bearer_token`. */
export function readBearerToken(c: AppContext): string {
  const token = BEARER.exec(c.req.header("authorization") ?? "")?.[1];
  if (token === undefined) throw new ApiError("missing_or_invalid_bearer_token");
  return token;
}
