/** What version 1 had and this one has not. Spec section 9. */

import type { AppContext } from "../../_shared/context.ts";
import { ApiError } from "../../_shared/errors.ts";
import { rawPath, stripPrefixes } from "../../_shared/domain/paths.ts";
import { findReplacement } from "../domain/removed_routes.ts";
import { PREFIXES } from "../domain/route_path.ts";

/** Answers `endpoint_removed`, with `replacement` where there is one. */
export function endpointRemoved(c: AppContext): never {
  const replacement = findReplacement(stripPrefixes(rawPath(c.req.url), PREFIXES));
  throw new ApiError("endpoint_removed", replacement === null ? {} : { replacement });
}
