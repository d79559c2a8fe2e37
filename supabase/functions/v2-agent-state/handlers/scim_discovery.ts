/** What a directory can learn of the service before it provisions. RFC 7644, section 4. */

import type { AppContext } from "../../_shared/context.ts";
import { ApiError } from "../../_shared/errors.ts";
import { describeSchemas, describeService, describeTypes, listOf } from "../domain/scim_discovery.ts";
import type { Fields } from "../domain/scim_resource.ts";
import { answerScim, scimBase } from "../middleware/speak_scim.ts";

/** GET /scim/v2/ServiceProviderConfig: 200, what of SCIM is there. */
export async function readServiceConfig(c: AppContext): Promise<Response> {
  await checkToken(c);
  return answerScim(c, describeService(scimBase(c)));
}

/** GET /scim/v2/ResourceTypes: 200, a list. */
export async function listResourceTypes(c: AppContext): Promise<Response> {
  await checkToken(c);
  return answerScim(c, listOf(describeTypes(scimBase(c))));
}

/** GET /scim/v2/ResourceTypes/:id: 200, one of them. */
export async function readResourceType(c: AppContext): Promise<Response> {
  await checkToken(c);
  return answerScim(c, findById(describeTypes(scimBase(c)), c));
}

/** GET /scim/v2/Schemas: 200, a list. */
export async function listSchemas(c: AppContext): Promise<Response> {
  await checkToken(c);
  return answerScim(c, listOf(describeSchemas(scimBase(c))));
}

/** GET /scim/v2/Schemas/:id: 200, one of them. */
export async function readSchema(c: AppContext): Promise<Response> {
  await checkToken(c);
  return answerScim(c, findById(describeSchemas(scimBase(c)), c));
}

/** Every other method on these: they are for reading. RFC 7644, section 4. Errors: `method_not_allowed`. */
export async function refuseMethod(c: AppContext): Promise<never> {
  await checkToken(c);
  throw new ApiError(c.req.method === "GET" ? "route_not_found" : "method_not_allowed");
}

async function checkToken(c: AppContext): Promise<void> {
  await c.var.platform.db.call("check_scim_token", { p_token_hash: c.var.scimTokenHash });
}

function findById(all: Fields[], c: AppContext): Fields {
  const found = all.find(({ id }) => id === c.req.param("id"));
  if (found === undefined) throw new ApiError("scim_resource_not_found");
  return found;
}
