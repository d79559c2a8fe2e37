/** What a SCIM client can ask about the service itself. RFC 7643, sections 5 to 7; pure. */

import { SCIM_COUNT_MAX } from "./limits.ts";
import type { Fields } from "./scim_resource.ts";
import { RESOURCE_TYPES, SCHEMAS } from "./scim_schemas.ts";

const CORE = "urn:ietf:params:scim:schemas:core:2.0";

/** What of SCIM is there. */
export function describeService(base: string): Fields {
  return {
    schemas: [`${CORE}:ServiceProviderConfig`],
    patch: { supported: true },
    bulk: { supported: false, maxOperations: 0, maxPayloadSize: 0 },
    filter: { supported: true, maxResults: SCIM_COUNT_MAX },
    changePassword: { supported: false },
    sort: { supported: false },
    etag: { supported: true },
    authenticationSchemes: [{
      type: "oauthbearertoken",
      name: "SCIM token",
      description: "A scim_ token that an admin of the team makes",
      primary: true,
    }],
    meta: { resourceType: "ServiceProviderConfig", location: `${base}/ServiceProviderConfig` },
  };
}

/** The kinds of resources. */
export function describeTypes(base: string): Fields[] {
  return RESOURCE_TYPES.map(({ id, endpoint, schema, extensions }) => ({
    schemas: [`${CORE}:ResourceType`],
    id,
    name: id,
    endpoint,
    description: schema.description,
    schema: schema.id,
    ...(extensions.length === 0 ? {} : {
      schemaExtensions: extensions.map((extension) => ({ schema: extension.id, required: false })),
    }),
    meta: { resourceType: "ResourceType", location: `${base}/ResourceTypes/${id}` },
  }));
}

/** The schemas. */
export function describeSchemas(base: string): Fields[] {
  return SCHEMAS.map(({ id, name, description, attributes }) => ({
    schemas: [`${CORE}:Schema`],
    id,
    name,
    description,
    attributes,
    meta: { resourceType: "Schema", location: `${base}/Schemas/${id}` },
  }));
}

/** A list, or a page of one. `start` counts from 1. */
export function listOf(resources: Fields[], total = resources.length, start = 1): Fields {
  return {
    schemas: ["urn:ietf:params:scim:api:messages:2.0:ListResponse"],
    totalResults: total,
    startIndex: start,
    itemsPerPage: resources.length,
    Resources: resources,
  };
}
