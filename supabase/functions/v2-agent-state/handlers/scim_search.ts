/** Searches whose terms are in a body, where no log of addresses keeps them. RFC 7644, 3.4.3. */

import type { AppContext } from "../../_shared/context.ts";
import { RESOURCE_TYPES } from "../domain/scim_schemas.ts";
import { searchDirectory } from "../flows/search_scim.ts";
import { readSearch } from "../middleware/scim_request.ts";
import { answerScim, scimBase } from "../middleware/speak_scim.ts";

/** POST /scim/v2/.search, and below Users and Groups: 200 with a page of all resources, or of one kind. */
export async function searchScim(c: AppContext): Promise<Response> {
  const endpoint = /\/(?:Users|Groups)(?=\/\.search$)/.exec(c.req.path)?.[0];
  const types = RESOURCE_TYPES.filter((type) => endpoint === undefined || endpoint === type.endpoint);
  const search = await readSearch(c);
  const { scimTokenHash, platform } = c.var;
  return answerScim(c, await searchDirectory(platform.db, scimTokenHash, types, search, scimBase(c)));
}
