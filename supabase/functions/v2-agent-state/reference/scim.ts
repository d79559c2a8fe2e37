/** SCIM 2.0. RFC 7644; spec 4.8. */

import { z } from "zod";
import type { ErrorCode } from "../../_shared/errors.ts";
import type { Operation, Operations, RefusalFormat } from "../../_shared/reference/operation.ts";
import { count, time, url, uuid, words } from "../../_shared/reference/shapes.ts";
import {
  GROUP_BODY,
  PATCH_BODY,
  SCIM_ID,
  SEARCH_BODY,
  SEARCH_QUERY,
  SELECTION_QUERY,
  USER_BODY,
} from "../middleware/scim_request.ts";
import { type Scene, SHOWN } from "./scene.ts";

const MEDIA = "application/scim+json";
const REQUEST_MEDIA = [MEDIA, "application/json"];
const BASE = "https://p.supabase.co/functions/v1/v2-agent-state/scim/v2";
const CORE = "urn:ietf:params:scim:schemas:core:2.0";
const PATCH_OP = "urn:ietf:params:scim:api:messages:2.0:PatchOp";

const schemas = (example: string) => z.array(z.string()).meta({ examples: [[example]] });
const meta = z.object({
  resourceType: z.enum(["User", "Group"]),
  created: time,
  lastModified: time,
  location: url(`${BASE}/Users/${SHOWN.scimUserId}`),
  version: words('W/"1"'),
}).optional();
const USER = z.looseObject({
  schemas: schemas(`${CORE}:User`),
  id: uuid(SHOWN.scimUserId),
  userName: words("jane.doe@example.com").optional(),
  active: z.boolean().optional().meta({ examples: [true] }),
  meta,
}).describe("The attributes of `GET /scim/v2/Schemas`").meta({ id: "ScimUser" });
const GROUP = z.looseObject({
  schemas: schemas(`${CORE}:Group`),
  id: uuid(SHOWN.scimGroupId),
  displayName: words("Engineers").optional(),
  members: z.array(z.looseObject({ value: uuid(SHOWN.scimUserId).optional() })).optional(),
  meta,
}).meta({ id: "ScimGroup" });
const listOf = (resource: z.ZodType) =>
  z.object({
    schemas: schemas("urn:ietf:params:scim:api:messages:2.0:ListResponse"),
    totalResults: count(1),
    startIndex: count(1),
    itemsPerPage: count(1),
    Resources: z.array(resource),
  });
const DESCRIPTION = z.looseObject({ schemas: schemas(`${CORE}:Schema`), meta: z.looseObject({}) });

const REFUSALS: RefusalFormat = {
  media: MEDIA,
  body: z.object({
    schemas: schemas("urn:ietf:params:scim:api:messages:2.0:Error"),
    status: words("404"),
    scimType: z.enum([
      "invalidFilter",
      "invalidPath",
      "invalidSyntax",
      "invalidValue",
      "mutability",
      "noTarget",
      "uniqueness",
    ]).optional(),
    detail: words("scim_resource_not_found: The team has no user or group with that id").describe(
      "Begins with the code",
    ),
  }).meta({ id: "ScimError" }),
};

const FIELDS = {
  id: "The resource, or what describes it",
  filter: "RFC 7644, 3.4.2.2; at most 2,048 characters",
  startIndex: "The first of the page, from 1",
  count: "At most this many, up to 200; 100 when it is not said",
  attributes: "Only these attributes, with commas between them",
  excludedAttributes: "All but these attributes",
  "if-match": "Only if this is the resource's version",
  "if-none-match": "Only if none of these is",
};
const IF_MATCH = z.object({ "if-match": z.string().optional() });
const IF_NONE_MATCH = z.object({ "if-none-match": z.string().optional() });

const SEARCHING = ["invalid_scim_filter", "invalid_scim_value"] as const;
const PATCHING = [
  ...SEARCHING,
  "invalid_scim_path",
  "invalid_scim_syntax",
  "scim_mutability",
  "scim_no_target",
] as const;
const JOINING = [
  "plan_required",
  "payment_provider_refused",
  "payment_provider_unavailable",
  "billing_not_configured",
] as const;
const CHANGING = ["scim_resource_not_found", "precondition_failed", "last_admin"] as const;

type Described = Omit<Operation<Scene>, "tag" | "refusals" | "fields">;

function describe(operation: Described): Operation<Scene> {
  return { tag: "SCIM", refusals: REFUSALS, fields: FIELDS, readsItself: true, ...operation };
}

function read(summary: string, body: z.ZodType, id?: string): Operation<Scene> {
  return describe({
    summary,
    ...(id === undefined ? {} : { path: z.object({ id: z.string() }), errors: ["scim_resource_not_found"] }),
    answers: { 200: { body, media: MEDIA } },
    example: () => id === undefined ? {} : { path: { id } },
  });
}

interface Kind {
  name: "User" | "Group";
  resource: z.ZodType;
  body: typeof USER_BODY;
  example: Record<string, unknown>;
  patch: Record<string, unknown>;
  joining: readonly ErrorCode[];
  /** What making one may end in besides. */
  making: readonly ErrorCode[];
  idOf(scene: Scene): string;
}

function operationsOf(
  { name, resource, body, example, patch, joining, making, idOf }: Kind,
): Operations<Scene> {
  const [base, noun] = [`/scim/v2/${name}s`, name.toLowerCase()];
  const one = { body: resource, media: MEDIA };
  const path = (scene: Scene) => ({ path: { id: idOf(scene) } });
  const VALUES = ["invalid_scim_value", "scim_uniqueness"] as const;
  return {
    [`GET ${base}`]: describe({
      summary: `Search ${noun}s`,
      query: SEARCH_QUERY,
      answers: { 200: { body: listOf(resource), media: MEDIA } },
      errors: SEARCHING,
      example: () => ({ query: { startIndex: "1", count: "2" } }),
    }),
    [`POST ${base}`]: describe({
      summary: `Make a ${noun}`,
      query: SELECTION_QUERY,
      body,
      media: REQUEST_MEDIA,
      answers: { 201: one },
      errors: [...VALUES, ...joining, ...making],
      example: () => ({ body: example }),
    }),
    [`GET ${base}/:id`]: describe({
      summary: `Read a ${noun}`,
      path: SCIM_ID,
      query: SELECTION_QUERY,
      headers: IF_NONE_MATCH,
      answers: { 200: one, 304: {} },
      errors: ["scim_resource_not_found"],
      example: path,
    }),
    [`PUT ${base}/:id`]: describe({
      summary: `Replace a ${noun}`,
      path: SCIM_ID,
      query: SELECTION_QUERY,
      headers: IF_MATCH,
      body,
      media: REQUEST_MEDIA,
      answers: { 200: one },
      errors: [...VALUES, ...CHANGING, ...joining],
      example: (scene) => ({ ...path(scene), body: example }),
    }),
    [`PATCH ${base}/:id`]: describe({
      summary: `Change a ${noun}`,
      path: SCIM_ID,
      query: SELECTION_QUERY,
      headers: IF_MATCH,
      body: PATCH_BODY,
      media: REQUEST_MEDIA,
      answers: name === "User" ? { 200: one } : { 200: one, 204: {} },
      errors: ["scim_uniqueness", ...PATCHING, ...CHANGING, ...joining],
      example: (scene) => ({ ...path(scene), body: patch }),
    }),
    [`DELETE ${base}/:id`]: describe({
      summary: name === "User" ? "Delete a user: whoever it was is no member any more" : "Delete a group",
      path: SCIM_ID,
      headers: IF_MATCH,
      answers: { 204: {} },
      errors: CHANGING,
      example: path,
    }),
  };
}

function search(id: string, resource: z.ZodType): Operation<Scene> {
  return describe({
    id,
    summary: "Search, with the terms in the body",
    body: SEARCH_BODY,
    media: REQUEST_MEDIA,
    answers: { 200: { body: listOf(resource), media: MEDIA } },
    errors: SEARCHING,
    example: () => ({ body: { filter: "meta.created pr", startIndex: 1, count: 2 } }),
  });
}

export const SCIM_OPERATIONS: Operations<Scene> = {
  "GET /scim/v2/ServiceProviderConfig": read("What of SCIM is there", DESCRIPTION),
  "GET /scim/v2/ResourceTypes": read("The kinds of resources", listOf(DESCRIPTION)),
  "GET /scim/v2/ResourceTypes/:id": read("One kind of resource", DESCRIPTION, "User"),
  "GET /scim/v2/Schemas": read("What resources are made of", listOf(DESCRIPTION)),
  "GET /scim/v2/Schemas/:id": read("What one kind is made of", DESCRIPTION, `${CORE}:User`),
  "POST /scim/v2/.search": search("searchDirectory", z.union([USER, GROUP])),
  "POST /scim/v2/Users/.search": search("searchUsers", USER),
  "POST /scim/v2/Groups/.search": search("searchGroups", GROUP),
  ...operationsOf({
    name: "User",
    resource: USER,
    body: USER_BODY,
    example: {
      schemas: [`${CORE}:User`],
      userName: "john.roe@example.com",
      name: { givenName: "John", familyName: "Roe" },
      emails: [{ primary: true, value: "john.roe@example.com", type: "work" }],
      active: true,
    },
    patch: { schemas: [PATCH_OP], Operations: [{ op: "replace", value: { active: false } }] },
    joining: JOINING,
    making: [],
    idOf: ({ scimUserId }) => scimUserId,
  }),
  ...operationsOf({
    name: "Group",
    resource: GROUP,
    body: GROUP_BODY,
    example: { schemas: [`${CORE}:Group`], displayName: "Gardeners", members: [] },
    patch: { schemas: [PATCH_OP], Operations: [{ op: "Replace", path: "displayName", value: "Gardeners" }] },
    joining: [],
    making: ["last_admin"],
    idOf: ({ scimGroupId }) => scimGroupId,
  }),
};
