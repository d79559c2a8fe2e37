/** Searches whose terms are in a body, where no log of addresses keeps them. RFC 7644, 3.4.3. */

import type { AppContext } from "../../_shared/context.ts";
import { ApiError } from "../../_shared/errors.ts";
import { RESOURCE_TYPES } from "../domain/scim_schemas.ts";
import { searchDirectory } from "../flows/search_scim.ts";
import { readSearch } from "../middleware/scim_request.ts";
import { answerScim, scimBase } from "../middleware/speak_scim.ts";

/** POST /scim/v2/.search and /scim/v2/:kind/.search: 200 with a page of all resources, or of one kind. */
export async function searchScim(c: AppContext): Promise<Response> {
  const kind = c.req.param("kind");
  const types = RESOURCE_TYPES.filter(({ endpoint }) => kind === undefined || endpoint === `/${kind}`);
  if (types.length === 0) throw new ApiError("route_not_found");
  const search = await readSearch(c);
  const { scimTokenHash, platform } = c.var;
  return answerScim(c, await searchDirectory(platform.db, scimTokenHash, types, search, scimBase(c)));
}
