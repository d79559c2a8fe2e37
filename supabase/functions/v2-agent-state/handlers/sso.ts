/** Single sign-on of a team, and the tokens of its directory. Spec 4.8. */

import { z } from "zod";
import type { AppContext } from "../../_shared/context.ts";
import { sha256 } from "../../_shared/domain/bytes.ts";
import { maskScimToken, mintScimToken } from "../../_shared/domain/credential.ts";
import { parse, parseBody } from "../../_shared/middleware/parse.ts";
import { sessionArguments } from "../../_shared/middleware/require_session.ts";
import { id, name, role, text } from "../../_shared/middleware/shapes.ts";
import {
  LABEL_LENGTH_MAX,
  SSO_CLAIMS_MAX,
  SSO_DOMAINS_MAX,
  SSO_GROUPS_MAX,
  URL_LENGTH_MAX,
} from "../domain/limits.ts";
import { configureSso } from "../flows/configure_sso.ts";

/** A name of the DNS has at most 253 characters, and so has the name of the record that proves a domain. */
const DOMAIN_LENGTH_MAX = 253 - "_agent-state-challenge.".length;
const DOMAIN = /^(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z][a-z0-9-]{0,61}[a-z0-9]$/;

export const SSO_TEAM = z.object({ teamId: id("not_a_team_member") });
export const SCIM_TOKEN = SSO_TEAM.extend({ id: id("scim_token_not_found") });
export const NEW_SCIM_TOKEN = z.object({ name });
export const SSO_RAW = z.object({ raw: z.enum(["0", "1"]).optional() });

const claimName = text(LABEL_LENGTH_MAX);
const claim = z.object({
  name: claimName.optional(),
  names: z.array(claimName).min(1).max(SSO_CLAIMS_MAX).optional(),
  default: z.union([text(LABEL_LENGTH_MAX), z.boolean(), z.int()]).optional(),
  array: z.boolean().optional(),
}).refine((each) => each.name !== undefined || each.names !== undefined || each.default !== undefined);
const atMost = (count: number) => (entries: object) => Object.keys(entries).length <= count;

export const SSO_CONFIG = z.object({
  metadata_xml: z.string().min(1).nullish(),
  metadata_url: text(URL_LENGTH_MAX).nullish(),
  domains: z.array(z.string().max(DOMAIN_LENGTH_MAX).toLowerCase().regex(DOMAIN)).max(SSO_DOMAINS_MAX)
    .transform((domains) => [...new Set(domains)]).optional(),
  attribute_mapping: z.object({ keys: z.record(claimName, claim).refine(atMost(SSO_CLAIMS_MAX)).optional() })
    .optional(),
  default_role: role.optional(),
  group_roles: z.record(text(LABEL_LENGTH_MAX), role).refine(atMost(SSO_GROUPS_MAX)).optional(),
  enabled: z.boolean().optional(),
}).refine((config) => !config.metadata_xml || !config.metadata_url, { path: ["metadata_url"] });

type Json = Record<string, unknown>;

/** GET /sso/:teamId/config: 200; with `?raw=1` also the metadata. Errors: `sso_not_configured`. */
export async function readSsoConfig(c: AppContext): Promise<Response> {
  const team = await teamOf(c);
  const { raw } = await parse(c, SSO_RAW, c.req.query());
  const config = await c.var.platform.db.call<Json>("read_sso_config", { ...team, p_raw: raw === "1" });
  return c.json({ ...config, service_provider: serviceProvider(c) });
}

/**
 * PUT /sso/:teamId/config: 200 with the configuration; fields that are left out stay. Errors: `invalid_metadata` with a
 * `reason`, `domain_not_verified`, `dns_unavailable`, `sso_entity_taken`, `sso_domain_taken`, `sso_provider_refused`, `last_admin` (by a change of roles).
 */
export async function updateSsoConfig(c: AppContext): Promise<Response> {
  const team = await teamOf(c);
  const { metadata_xml, metadata_url, ...rest } = await parseBody(c, SSO_CONFIG);
  const config = await configureSso(c.var.platform, team, {
    metadata_xml: metadata_xml ?? undefined,
    metadata_url: metadata_url ?? undefined,
    domains: rest.domains,
    attribute_mapping: rest.attribute_mapping,
    default_role: rest.default_role,
    group_roles: rest.group_roles,
    enabled: rest.enabled,
  });
  return c.json({ ...config, service_provider: serviceProvider(c) });
}

/** POST /sso/:teamId/scim-tokens: 201 with the new token; `raw_secret` is in this answer and nowhere else. */
export async function createScimToken(c: AppContext): Promise<Response> {
  const team = await teamOf(c);
  const body = await parseBody(c, NEW_SCIM_TOKEN);
  const secret = mintScimToken((count) => crypto.getRandomValues(new Uint8Array(count)));
  const { id, name, prefix, masked_token, created_at } = await c.var.platform.db.call<Json>(
    "create_scim_token",
    {
      ...team,
      p_name: body.name,
      p_token_hash: sha256(secret),
      p_masked_token: maskScimToken(secret),
    },
  );
  return c.json({ id, name, prefix, masked_token, raw_secret: secret, created_at }, 201);
}

/** GET /sso/:teamId/scim-tokens: 200 `{team_id, tokens}`, active and revoked, newest first. */
export async function listScimTokens(c: AppContext): Promise<Response> {
  const team = await teamOf(c);
  const tokens = await c.var.platform.db.call<Json[]>("list_scim_tokens", team);
  return c.json({ team_id: team.p_team_id, tokens });
}

/** DELETE /sso/:teamId/scim-tokens/:id: 200 `{id, revoked_at, message}`. Errors: `scim_token_not_found`. */
export async function revokeScimToken(c: AppContext): Promise<Response> {
  const team = await teamOf(c);
  const { id } = await parse(c, SCIM_TOKEN, c.req.param());
  return c.json(await c.var.platform.db.call<Json>("revoke_scim_token", { ...team, p_token_id: id }));
}

async function teamOf(c: AppContext) {
  const { teamId } = await parse(c, SSO_TEAM, { teamId: c.req.param("teamId") });
  return { ...sessionArguments(c), p_team_id: teamId };
}

/** What the identity provider asks for, where Supabase Auth is the one that people sign in at. */
function serviceProvider(c: AppContext): Json | null {
  const base = c.var.settings.supabaseUrl?.replace(/\/+$/, "");
  if (base === undefined) return null;
  return { entity_id: `${base}/auth/v1/sso/saml/metadata`, acs_url: `${base}/auth/v1/sso/saml/acs` };
}
