/**
 * The one catalogue of error codes, and the one error class that carries them.
 *
 * Clients branch on the code, never on a message. A code ending in `:<field>` is a family: the part after the
 * colon names the field. Handlers, flows, middleware and SQL functions name a code; the status lives only here.
 * The error table of the README is generated from this file. Spec section 7.
 */

interface CatalogueEntry {
  status: 400 | 401 | 402 | 403 | 404 | 405 | 409 | 410 | 412 | 413 | 429 | 500 | 503;
  when: string;
}

/** Every code that the service can answer, in the order of the spec's table, then our own. */
export const CATALOGUE = {
  "invalid_json": { status: 400, when: "The body is not a JSON object in well-formed UTF-8" },
  "missing_field:<field>": { status: 400, when: "A required field is absent" },
  "bad_policy_hash": { status: 400, when: "`policy_hash` is not 64 hex characters" },
  "bad_payload_hash": { status: 400, when: "`client_payload_hash` is not 64 hex characters" },
  "bad_sequence": { status: 400, when: "A sequence number is negative or not an integer" },
  "genesis_violation": { status: 400, when: "`sequence_number` is 0 but `parent_snapshot` is not null" },
  "missing_parent_snapshot": { status: 400, when: "`sequence_number` is above 0 with no `parent_snapshot`" },
  "byte_size_mismatch": { status: 400, when: "The decoded ciphertext's length differs from `byte_size`" },
  "missing_since_param": { status: 400, when: "`since` is missing on `/replay`" },
  "non_aggregate_field": { status: 400, when: "The telemetry body has a key outside the five allowed ones" },
  "missing_or_invalid_bearer_token": {
    status: 401,
    when: "The Authorization header is absent, or is not a Bearer token of a known form",
  },
  "session_jwt_required": { status: 401, when: "An API key was sent to a route that needs a session JWT" },
  "invalid_session": { status: 401, when: "The session JWT has expired or cannot be verified" },
  "invalid_api_key": { status: 401, when: "The API key is not known" },
  "api_key_revoked": { status: 401, when: "The API key was revoked" },
  "owner_not_found": { status: 401, when: "The account that owns the API key no longer exists" },
  "insufficient_credits": {
    status: 402,
    when: "The credit balance is too low; only `sov_live_` keys are charged",
  },
  "not_a_team_member": { status: 403, when: "The caller is not in the team" },
  "forbidden_role": { status: 403, when: "The caller's role does not permit the operation" },
  "telemetry_disabled": { status: 403, when: "Telemetry is not opted in" },
  "no_grant": { status: 403, when: "The caller holds no wrapped key of the team" },
  "seat_limit_reached": { status: 403, when: "No seat is free on a plan that does not add seats by itself" },
  "plan_does_not_support_seats": {
    status: 403,
    when: "Seats can be changed only on growth, pro and enterprise",
  },
  "invalid_webhook_signature": { status: 403, when: "The webhook's signature is missing or wrong" },
  "no_snapshots_for_agent": { status: 404, when: "The agent has no confirmed snapshot" },
  "snapshot_not_found": { status: 404, when: "There is no confirmed snapshot at that sequence" },
  "route_not_found": { status: 404, when: "No route has this path and method" },
  "no_replication_entries": { status: 404, when: "Nothing has been replicated yet" },
  "no_polar_subscription": { status: 404, when: "The account has no subscription at the payment provider" },
  "sequence_conflict": {
    status: 409,
    when: "A snapshot exists at that sequence with a different payload hash",
  },
  "sequence_gap": { status: 409, when: "The sequence is not the one that comes next" },
  "split_brain_detected": {
    status: 409,
    when: "A chunk is registered at that sequence with a different hash; see `conflicts`",
  },
  "ciphertext_too_large": { status: 413, when: "The ciphertext of a snapshot or asset is over 262144 bytes" },
  "chunk_too_large": { status: 413, when: "A chunk is over 262144 bytes decoded" },
  "storage_unavailable": {
    status: 503,
    when: "Object storage did not take the blob; the debit is refunded, retry",
  },
  // Codes of our own, where the spec gives none.
  "invalid_field:<field>": { status: 400, when: "A field or parameter is present but has a wrong value" },
  "block_hash_mismatch": { status: 400, when: "`block_hash` is not the SHA-256 of the decoded block" },
  "incomplete_grants": {
    status: 400,
    when: "The rotation does not wrap the key for every remaining member; see `missing`",
  },
  "unknown_member": { status: 400, when: "The rotation names somebody who holds no grant; see `unknown`" },
  "trial_quota_exceeded": {
    status: 403,
    when: "A project token has used up the bytes it may keep; reads go on working",
  },
  "invitation_not_found": {
    status: 404,
    when: "The invitation is unknown, expired, used, replaced, or for another address",
  },
  "confirmation_not_found": { status: 404, when: "The confirmation is unknown, wrong or expired" },
  "stale_rotation": {
    status: 409,
    when: "The team has rotated its key since; `rotation_seq` is the running epoch",
  },
  "last_admin": { status: 409, when: "A team cannot be left without an admin" },
  "rate_limited": { status: 429, when: "Too many tries; come back after `Retry-After` seconds" },
  "api_key_not_found": { status: 404, when: "The caller has no API key with that id" },
  "webhook_not_found": { status: 404, when: "The caller has no webhook with that id" },
  "webhook_limit_reached": {
    status: 409,
    when: "The caller has as many webhooks as one may have; see `limit`",
  },
  "webhook_disabled": { status: 409, when: "The webhook was disabled, so nothing can be sent to it" },
  "invalid_cron_secret": { status: 401, when: "The secret of the scheduled jobs is missing or wrong" },
  "cron_not_configured": { status: 503, when: "This deployment has no secret for scheduled jobs" },
  "body_too_large": { status: 413, when: "The request's body is larger than this route takes" },
  "billing_not_configured": { status: 503, when: "This deployment has no payment provider" },
  "seats_in_use": {
    status: 409,
    when: "Fewer seats were asked for than a team has taken; see `seats_taken`",
  },
  "payment_provider_refused": {
    status: 409,
    when: "The payment provider will not do this; nothing has changed here",
  },
  "payment_provider_unavailable": {
    status: 503,
    when: "The payment provider cannot be reached or is busy; nothing has changed here, retry",
  },
  "plan_required": { status: 403, when: "The team's plan does not have this; see `required_plan`" },
  "invalid_metadata": {
    status: 400,
    when: "The identity provider's metadata cannot be used; `reason` says why",
  },
  "sso_not_configured": { status: 404, when: "The team has no configuration of single sign-on yet" },
  "sso_entity_taken": { status: 409, when: "Another team signs in with this identity provider" },
  "sso_domain_taken": {
    status: 409,
    when: "Another team has proved this domain to be its own; see `domain`",
  },
  "domain_not_verified": {
    status: 409,
    when:
      "A domain is not proved to be the team's; publish the records of `domain_verification`, and try again",
  },
  "dns_unavailable": {
    status: 503,
    when: "A domain's records cannot be looked up; nothing has changed, retry",
  },
  "sso_provider_refused": {
    status: 409,
    when: "Supabase Auth does not take the identity provider; nothing has changed here",
  },
  "sso_provider_unavailable": {
    status: 503,
    when: "Supabase Auth cannot be reached or is busy; nothing has changed here, retry",
  },
  "scim_token_not_found": { status: 404, when: "The team has no SCIM token with that id" },
  "scim_token_limit_reached": {
    status: 409,
    when: "The team has as many SCIM tokens as it may have; see `limit`",
  },
  "invalid_scim_token": { status: 401, when: "The SCIM token is not known" },
  "scim_token_revoked": { status: 401, when: "The SCIM token was revoked" },
  "method_not_allowed": { status: 405, when: "What SCIM says of itself can be read, and nothing else" },
  "scim_resource_not_found": { status: 404, when: "The team has no user or group with that id" },
  "scim_uniqueness": { status: 409, when: "Another user or group of the team has it; see `attribute`" },
  "precondition_failed": { status: 412, when: "The resource is of another version than `If-Match` says" },
  "invalid_scim_filter": {
    status: 400,
    when: "The filter cannot be read, or is about what cannot be searched",
  },
  "invalid_scim_path": { status: 400, when: "The path of a patch leads nowhere" },
  "invalid_scim_syntax": { status: 400, when: "The request is not built as SCIM says" },
  "invalid_scim_value": { status: 400, when: "A value is missing or not what its attribute takes" },
  "scim_mutability": { status: 400, when: "The attribute is not the client's to set" },
  "scim_no_target": { status: 400, when: "The path of a patch selects nothing" },
  "member_not_signed_in": {
    status: 409,
    when: "The directory's user has not signed in yet, so there is nobody to wrap the key for",
  },
  "forbidden_scope": { status: 403, when: "The API key is for something else; see `scopes`" },
  // The vault interface, whose codes the spec leaves open.
  "missing_or_invalid_api_key": {
    status: 401,
    when: "The vault's `x-api-key` header is absent, or is no `sov_live_` key",
  },
  "user_key_required": { status: 403, when: "A team's sub-key was used where a key of a person is needed" },
  "proof_of_life_required": {
    status: 403,
    when: "An ordinary API key does not prove that the owner lives; use a session or a check-in key",
  },
  "vault_not_found": { status: 404, when: "The caller has no vault with that id" },
  "person_not_found": { status: 404, when: "The vault names no such heir or guardian" },
  "asset_not_found": { status: 404, when: "The vault has no such asset" },
  "change_not_found": { status: 404, when: "The vault has no such change that still waits" },
  "claim_not_found": {
    status: 404,
    when: "The vault has no such claim, or it is somebody else's to withdraw",
  },
  "unknown_heir": { status: 400, when: "A key is wrapped for somebody who is no heir; see `unknown`" },
  "incomplete_shares": {
    status: 400,
    when: "There is not a new share for exactly those who hold one; see `missing`",
  },
  "person_exists": { status: 409, when: "The vault names that address in that role already" },
  "person_not_accepted": { status: 409, when: "The person has not accepted the invitation" },
  "vault_limit_reached": { status: 409, when: "There are as many as there may be; see `of` and `limit`" },
  "wrong_vault_state": { status: 409, when: "The vault's state does not allow this; see `state`, `allowed`" },
  "no_confirmed_heir": {
    status: 409,
    when: "The vault has no confirmed heir, and nothing is released to nobody",
  },
  "nothing_to_veto": { status: 409, when: "No release runs and no claim is open" },
  "already_picked_up": { status: 409, when: "An heir has picked the vault up, so it is too late for a veto" },
  "trigger_disabled": { status: 409, when: "The vault's owner has not enabled this trigger" },
  "claim_exists": { status: 409, when: "A claim is open; vote on that one" },
  "claim_closed": { status: 409, when: "The claim takes no votes any more; see `state`" },
  "claim_cooling_down": {
    status: 409,
    when: "The guardian's last claim came to nothing; wait until `until`",
  },
  "too_few_guardians": { status: 409, when: "Claims need one confirmed guardian more than their quorum" },
  "stale_asset": { status: 409, when: "The asset is of an earlier key epoch; add it anew" },
  "forbidden_person": {
    status: 403,
    when: "The token is of somebody who may not do this; see `role`, `status`",
  },
  "not_released": { status: 403, when: "The vault is not released, so nothing can be picked up" },
  "endpoint_removed": { status: 410, when: "The route was of version 1; see `replacement`" },
  "internal_error": { status: 500, when: "Something failed that should not have; quote the `request_id`" },
  "service_unavailable": { status: 503, when: "The database cannot be reached or is busy; retry" },
} as const satisfies Record<string, CatalogueEntry>;

type Family = "missing_field" | "invalid_field";
type CatalogueKey = keyof typeof CATALOGUE;

/** A wire code: a key of {@link CATALOGUE}, with `<field>` filled in for the two families. */
export type ErrorCode = Exclude<CatalogueKey, `${string}:<field>`> | `${Family}:${string}`;

/** Whole seconds that a client should wait after a 503 before it tries again. */
const RETRY_AFTER_SECONDS = 2;

/** Returns the catalogue's entry of a wire code, or undefined when the code is not in it. */
export function findCode(code: string): CatalogueEntry | undefined {
  const family = code.indexOf(":");
  const key = family < 0 ? code : `${code.slice(0, family)}:<field>`;
  return Object.hasOwn(CATALOGUE, key) ? CATALOGUE[key as CatalogueKey] : undefined;
}

/** A refusal that the client is told about: `{"error": code, "request_id": …, …details}`. Spec section 7. */
export class ApiError extends Error {
  readonly code: ErrorCode;
  readonly status: CatalogueEntry["status"];
  readonly details: Record<string, unknown>;

  constructor(code: ErrorCode, details: Record<string, unknown> = {}, options?: ErrorOptions) {
    super(code, options);
    this.name = "ApiError";
    this.code = code;
    this.details = details;
    this.status = (findCode(code) ?? CATALOGUE.internal_error).status;
  }

  /** Extra response headers: 503 says when to come back, 401 which scheme is expected. */
  get headers(): Record<string, string> {
    if (this.status === 503 || this.status === 429) {
      return { "retry-after": String(this.details.retry_after_seconds ?? RETRY_AFTER_SECONDS) };
    }
    if (this.status === 401) return { "www-authenticate": "Bearer" };
    return {};
  }
}
