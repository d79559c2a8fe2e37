/** What version 1 had and this one has not. Spec section 9. */

import type { AppContext } from "../../_shared/context.ts";
import { ApiError } from "../../_shared/errors.ts";
import { findRemoved } from "../domain/removed_routes.ts";

/** Answers `endpoint_removed`, with `replacement` where there is one; another method never was: `route_not_found`. */
export function endpointRemoved(c: AppContext): never {
  const removed = findRemoved(c.req.method, c.req.path);
  if (removed === undefined) throw new ApiError("route_not_found");
  throw new ApiError("endpoint_removed", removed);
}
