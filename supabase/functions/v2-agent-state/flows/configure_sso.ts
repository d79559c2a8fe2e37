/**
 * Changes a team's single sign-on: fetch and check the metadata → look the domains up → tell
 * Supabase Auth → save. Spec 4.8.
 */

import { ApiError } from "../../_shared/errors.ts";
import type { Platform, ProviderRegistration, SqlArguments } from "../../_shared/platform/mod.ts";
import { METADATA_BYTES_MAX } from "../domain/limits.ts";
import { type DomainProof, findProved, requireProved } from "./prove_domains.ts";
import type { IdentityProvider } from "../domain/saml_metadata.ts";

/** Who changes which team's configuration. */
type Caller = { p_subject: string; p_email: string | null; p_team_id: string };

/** What is to be changed; what is undefined stays. */
export interface SsoChange {
  metadata_xml: string | undefined;
  metadata_url: string | undefined;
  domains: string[] | undefined;
  attribute_mapping: Record<string, unknown> | undefined;
  default_role: string | undefined;
  group_roles: Record<string, string> | undefined;
  enabled: boolean | undefined;
}

/** What there is before. See `api.check_sso_change`. */
interface Present {
  configured: boolean;
  has_metadata: boolean;
  metadata_xml: string | null;
  enabled: boolean;
  domains: string[];
  /** Of the domains that there will be. */
  domain_verification: DomainProof[];
  attribute_mapping: Record<string, unknown>;
  entity_id: string | null;
  provider_id: string | null;
  provider_entity_id: string | null;
}

/**
 * Makes the change and returns the configuration. Errors: `invalid_metadata` with a `reason`, `invalid_field:…` for an
 * address that may not be fetched, `missing_field:metadata_xml` when there is nothing to sign in with, `dns_unavailable`,
 * `domain_not_verified`; what the database and Supabase Auth refuse. In each case nothing has changed.
 */
export async function configureSso(
  platform: Platform,
  caller: Caller,
  change: SsoChange,
): Promise<Record<string, unknown>> {
  const present = await platform.db.call<Present>("check_sso_change", {
    ...caller,
    p_domains: change.domains ?? null,
  });
  const xml = await findMetadata(platform, change);
  const provider = xml === undefined ? undefined : await readMetadata(xml, platform.now());
  const needsOne = change.enabled === true || change.domains !== undefined ||
    change.attribute_mapping !== undefined || (change.default_role ?? change.group_roles) === undefined;
  if (provider === undefined && !present.has_metadata && needsOne) {
    throw new ApiError("missing_field:metadata_xml");
  }
  const proved = change.domains !== undefined || change.enabled === true
    ? await findProved(platform.names, present.domain_verification)
    : [];
  if (change.enabled ?? present.enabled) requireProved(present.domain_verification, proved);
  const registration = platform.providers.registers
    ? await register(platform, caller, present, change, xml, provider)
    : undefined;
  return await platform.db.call("save_sso_config", {
    ...caller,
    ...spellProvider(xml, change.metadata_url, provider),
    p_domains: change.domains ?? null,
    p_proved: proved,
    p_attribute_mapping: spell(change.attribute_mapping),
    p_default_role: change.default_role ?? null,
    p_group_roles: spell(change.group_roles),
    p_enabled: change.enabled ?? null,
    p_set_provider: registration !== undefined,
    p_provider_id: registration?.id ?? null,
  });
}

async function findMetadata(platform: Platform, change: SsoChange): Promise<string | undefined> {
  if (change.metadata_url === undefined) return change.metadata_xml;
  const fetched = await platform.providers.fetchMetadata(change.metadata_url, METADATA_BYTES_MAX);
  if ("xml" in fetched) return fetched.xml;
  throw new ApiError("invalid_field:metadata_url", { reason: fetched.fault });
}

/** The reader comes when it is first needed: with its XML parser it would make every start longer. */
async function readMetadata(xml: string, now: Date): Promise<IdentityProvider> {
  const { MetadataFault, parseMetadata } = await import("../domain/saml_metadata.ts");
  try {
    return parseMetadata(xml, now);
  } catch (error) {
    if (error instanceof MetadataFault) throw new ApiError("invalid_metadata", { reason: error.reason });
    throw error;
  }
}

/** Makes Supabase Auth know what will be saved. Returns the provider's id there: null when there is none any more. */
async function register(
  platform: Platform,
  caller: Caller,
  present: Present,
  change: SsoChange,
  xml: string | undefined,
  provider: IdentityProvider | undefined,
): Promise<{ id: string | null } | undefined> {
  const { providers, db } = platform;
  if (!(change.enabled ?? present.enabled)) {
    if (present.provider_id === null) return undefined;
    await providers.remove(present.provider_id);
    return { id: null };
  }
  const wanted: ProviderRegistration = {
    metadataXml: xml ?? present.metadata_xml!,
    domains: change.domains ?? present.domains,
    attributeMapping: change.attribute_mapping ?? present.attribute_mapping,
  };
  const entityId = provider?.entityId ?? present.entity_id!;
  const { since } = await db.call<{ since: string }>("begin_sso_registration", {
    ...caller,
    p_entity_id: entityId,
    p_domains: wanted.domains,
  });
  const isSame = present.provider_entity_id === entityId;
  if (isSame && await providers.update(present.provider_id!, wanted)) return { id: present.provider_id };
  const id = present.provider_id === null || isSame
    ? await create(platform, caller, wanted, entityId, since)
    : await exchange(platform, caller, present, wanted, entityId, since);
  return { id };
}

/** Registers a provider; takes over the one that an earlier attempt of ours made and never heard of. */
async function create(
  { providers, db }: Platform,
  caller: Caller,
  wanted: ProviderRegistration,
  entityId: string,
  since: string,
): Promise<string> {
  try {
    return await providers.create(wanted);
  } catch (error) {
    if (!(error instanceof ApiError) || error.code !== "sso_provider_refused") throw error;
    const found = await providers.find(entityId);
    if (found !== undefined && Date.parse(found.createdAt) >= Date.parse(since)) {
      await providers.update(found.id, wanted);
      return found.id;
    }
    await db.call("end_sso_registration", { p_team_id: caller.p_team_id });
    throw error;
  }
}

/** Another provider takes the place of the one before: it can have the domains only once that one has let them go. */
async function exchange(
  platform: Platform,
  caller: Caller,
  present: Present,
  wanted: ProviderRegistration,
  entityId: string,
  since: string,
): Promise<string> {
  const { providers } = platform;
  const before = { domains: present.domains, attributeMapping: present.attribute_mapping };
  await providers.update(present.provider_id!, { ...before, domains: [] });
  try {
    const id = await create(platform, caller, wanted, entityId, since);
    await providers.remove(present.provider_id!).catch(() => {
      platform.log({ level: "warn", event: "sso_provider_left_behind" });
    });
    return id;
  } catch (error) {
    await providers.update(present.provider_id!, before).catch(() => {});
    throw error;
  }
}

function spellProvider(
  xml: string | undefined,
  url: string | undefined,
  provider: IdentityProvider | undefined,
): SqlArguments {
  return {
    p_metadata_xml: xml ?? null,
    p_metadata_url: url ?? null,
    p_entity_id: provider?.entityId ?? null,
    p_sso_url: provider?.ssoUrl ?? null,
    p_sso_binding: provider?.ssoBinding ?? null,
    p_certificates: spell(provider?.certificates),
  };
}

function spell(value: unknown): string | null {
  return value === undefined ? null : JSON.stringify(value);
}
