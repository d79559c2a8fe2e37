/** Single sign-on and the tokens of a directory. Spec 4.8. */

import { z } from "zod";
import { DOMAIN_PROOF } from "../../_shared/reference/error_details.ts";
import type { Operations } from "../../_shared/reference/operation.ts";
import { sha256, time, url, uuid, words } from "../../_shared/reference/shapes.ts";
import { NEW_SCIM_TOKEN, SCIM_TOKEN, SSO_CONFIG, SSO_RAW, SSO_TEAM } from "../handlers/sso.ts";
import { type Scene, SHOWN } from "./scene.ts";

const role = z.enum(["admin", "write", "read"]);
const tokenId = uuid(SHOWN.scimTokenId);
const PREFIX = z.literal("scim_");
const MASKED = words("scim_…Q2xY");

const CONFIG = z.object({
  team_id: uuid(SHOWN.teamId),
  entity_id: words("http://www.okta.com/exk1fcia6d6EMsf331d8").nullable(),
  sso_url: url("https://example.okta.com/app/exk1fcia6d6EMsf331d8/sso/saml").nullable(),
  sso_binding: words("urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect").nullable(),
  metadata_url: url("https://example.okta.com/app/exk1fcia6d6EMsf331d8/sso/saml/metadata").nullable(),
  certificates: z.array(z.object({ fingerprint_sha256: sha256(), expires_at: time })).describe(
    "Those that the provider signs with, the one that lasts longest first",
  ),
  certificate_expires_at: time.nullable().describe("When the last of them expires"),
  domains: z.array(words("example.com")),
  domain_verification: z.array(DOMAIN_PROOF).describe("Of each of the domains, in their order"),
  attribute_mapping: z.record(z.string(), z.unknown()).meta({ examples: [{}] }),
  default_role: role,
  group_roles: z.record(z.string(), role).meta({ examples: [{ Engineers: "write" }] }),
  enabled: z.boolean().meta({ examples: [true] }),
  provider_id: uuid("0d3f4c9b-7a1e-4f60-9c25-8be1d7a4f603").nullable().describe("At Supabase Auth"),
  created_at: time,
  updated_at: time,
  service_provider: z.object({
    entity_id: url("https://p.supabase.co/auth/v1/sso/saml/metadata"),
    acs_url: url("https://p.supabase.co/auth/v1/sso/saml/acs"),
  })
    .nullable().describe("What the identity provider asks for, where Supabase Auth is the issuer"),
  metadata_xml: words(SHOWN.metadataXml).nullable().optional().describe("With `raw=1` only"),
}).meta({ id: "SsoConfig" });

const NEW = z.object({
  id: tokenId,
  name: words("okta"),
  prefix: PREFIX,
  masked_token: MASKED,
  raw_secret: words("scim_5tq1mZ8rW3kVh0yYB9sLx2cJfU7nEoPgDa4iRbTvKQw0a1B2c").describe(
    "Shown in this answer and never again",
  ),
  created_at: time,
}).meta({ id: "NewScimToken" });
const LISTED = z.object({
  id: tokenId,
  name: words("okta"),
  prefix: PREFIX,
  masked_token: MASKED,
  created_at: time,
  revoked_at: time.nullable(),
  last_used_at: time.nullable(),
  state: z.enum(["active", "revoked"]),
}).meta({ id: "ScimToken" });

const NOT_YOURS = ["not_a_team_member", "forbidden_role", "plan_required"] as const;
const FIELDS = { teamId: "The team", id: "The token" };

export const SSO_OPERATIONS: Operations<Scene> = {
  "GET /sso/:teamId/config": {
    tag: "Single sign-on",
    summary: "A team's identity provider, and the roles that its directory gives",
    path: SSO_TEAM,
    query: SSO_RAW,
    fields: { ...FIELDS, raw: "`1` shows the metadata as well" },
    answers: { 200: { body: CONFIG } },
    errors: [...NOT_YOURS, "sso_not_configured"],
    // A team that has saved roles has a configuration.
    example: ({ teamId }) => ({ path: { teamId } }),
  },
  "PUT /sso/:teamId/config": {
    tag: "Single sign-on",
    summary: "Change the identity provider, or the roles that the directory gives",
    description:
      "Fields that are left out stay as they are. Each domain is proved by the TXT record that `domain_verification` " +
      "shows; it is looked up when `domains` or `enabled: true` is sent. `docs/enterprise.md` shows what Okta and Entra ask for.",
    path: SSO_TEAM,
    body: SSO_CONFIG,
    fields: {
      ...FIELDS,
      metadata_xml: "The provider's metadata, up to 256 KiB",
      metadata_url: "Where it is fetched from, once; instead of `metadata_xml`",
      domains: "Of the addresses that sign in there, as the DNS spells them",
      attribute_mapping: 'As Supabase Auth takes it: `{"keys": {"claim": {"name": "attribute"}}}`',
      default_role: "Of users in no group that maps to a role",
      group_roles: "From names of the directory's groups to roles; the highest counts",
      enabled: "Whether people sign in there; every domain must be proved",
    },
    answers: { 200: { body: CONFIG } },
    errors: [
      ...NOT_YOURS,
      "missing_field:<field>",
      "invalid_metadata",
      "sso_entity_taken",
      "sso_domain_taken",
      "domain_not_verified",
      "dns_unavailable",
      "sso_provider_refused",
      "sso_provider_unavailable",
      "last_admin",
    ],
    example: ({ teamId, metadataXml }) => ({
      path: { teamId },
      body: { metadata_xml: metadataXml, group_roles: { Engineers: "write" }, default_role: "read" },
    }),
  },
  "POST /sso/:teamId/scim-tokens": {
    tag: "Single sign-on",
    summary: "Make a token for the team's directory",
    path: SSO_TEAM,
    body: NEW_SCIM_TOKEN,
    fields: { ...FIELDS, name: "What it is called" },
    answers: { 201: { body: NEW } },
    errors: [...NOT_YOURS, "scim_token_limit_reached"],
    example: ({ teamId }) => ({ path: { teamId }, body: { name: "okta" } }),
  },
  "GET /sso/:teamId/scim-tokens": {
    tag: "Single sign-on",
    summary: "List the directory's tokens, active and revoked, newest first",
    path: SSO_TEAM,
    fields: FIELDS,
    answers: { 200: { body: z.object({ team_id: uuid(SHOWN.teamId), tokens: z.array(LISTED) }) } },
    errors: NOT_YOURS,
    example: ({ teamId }) => ({ path: { teamId } }),
  },
  "DELETE /sso/:teamId/scim-tokens/:id": {
    tag: "Single sign-on",
    summary: "Revoke a token for good",
    path: SCIM_TOKEN,
    fields: FIELDS,
    answers: {
      200: { body: z.object({ id: tokenId, revoked_at: time, message: z.literal("scim_token_revoked") }) },
    },
    errors: [...NOT_YOURS, "scim_token_not_found"],
    example: ({ teamId, scimTokenId }) => ({ path: { teamId, id: scimTokenId } }),
  },
};
