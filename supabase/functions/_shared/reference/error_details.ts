/** What refusals carry besides their code and the request's id, by code. */

import { z } from "zod";
import type { CATALOGUE } from "../errors.ts";
import { count, sha256, time, uuid, words } from "./shapes.ts";

const index = count(2).optional().describe("Which item of the array, from 0");
const limit_bytes = count(65_536).optional();
const role = z.enum(["admin", "write", "read"]);
const members = z.array(words("user-2"));
const reason = words("lease_expired").optional();
const guest = z.enum(["heir", "guardian"]);
const VAULT_STATE = z.enum(["active", "releasing", "released"]);

const CONFLICT = z.object({
  sequence_number: count(2),
  existing_block_hash: sha256(),
  attempted_block_hash: sha256("2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"),
}).meta({ id: "Conflict" });

/** Whether a domain is proved, and what to publish for it. */
export const DOMAIN_PROOF = z.object({
  domain: words("example.com"),
  verified: z.boolean().meta({ examples: [false] }),
  verified_at: time.nullable(),
  record: z.object({
    type: z.literal("TXT"),
    name: words("_agent-state-challenge.example.com"),
    value: words(`agent-state-verification=${"5d41".repeat(16)}`),
  }).describe("The same each time; the team's own"),
}).meta({ id: "DomainProof" });

export const ERROR_DETAILS: Partial<Record<keyof typeof CATALOGUE, z.ZodRawShape>> = {
  "invalid_json": { reason: words("text that cannot be stored").optional() },
  "missing_field:<field>": { index },
  "invalid_field:<field>": { index, reason: words("not_https").optional(), expected: count(1).optional() },
  "bad_sequence": { index },
  "block_hash_mismatch": { index },
  "chunk_too_large": { index, limit_bytes },
  "ciphertext_too_large": { limit_bytes },
  "body_too_large": { limit_bytes },
  "insufficient_credits": { required_milli: count(45), credits_milli: count(10) },
  "trial_quota_exceeded": {
    quota_bytes: count(268_435_456),
    stored_bytes: count(268_400_000),
    attempted_bytes: count(65_536),
  },
  "forbidden_role": { role: role.optional(), required_role: role.optional() },
  "no_grant": { member_id: words("user-2").optional() },
  "seat_limit_reached": { seats: count(3), seats_taken: count(3) },
  "plan_does_not_support_seats": { plan: words("hobby") },
  "sequence_conflict": { sequence_number: count(2), head: count(2), existing_payload_hash: sha256() },
  "sequence_gap": {
    expected_sequence: count(3),
    head: count(2).nullable().describe("The last one that is stored; null when there is none"),
    conflicts: z.array(CONFLICT).max(0).optional().describe("Always empty; of the replication log only"),
  },
  "split_brain_detected": { conflicts: z.array(CONFLICT).min(1) },
  "incomplete_grants": { missing: members },
  "unknown_member": { unknown: members },
  "stale_rotation": { rotation_seq: count(4) },
  "rate_limited": { retry_after_seconds: count(1_800) },
  "webhook_limit_reached": { limit: count(20) },
  "seats_in_use": { seats_taken: count(5) },
  "plan_required": { plan: words("pro"), required_plan: words("enterprise") },
  "invalid_metadata": { reason: words("certificate_not_live") },
  "domain_not_verified": {
    domain_verification: z.array(DOMAIN_PROOF).describe("Those without their record"),
  },
  "sso_domain_taken": { domain: words("example.com").optional() },
  "sso_provider_unavailable": { reason },
  "scim_token_limit_reached": { limit: count(20) },
  "storage_unavailable": { reason },
  "forbidden_scope": { scopes: z.array(words("vault:check_in")).optional() },
  "unknown_heir": { unknown: z.array(uuid()) },
  "incomplete_shares": { missing: z.array(uuid()) },
  "person_exists": { role: guest },
  "person_not_accepted": { status: words("pending") },
  "vault_limit_reached": { limit: count(20), of: words("heirs") },
  "wrong_vault_state": { state: VAULT_STATE, allowed: z.array(VAULT_STATE) },
  "already_picked_up": { picked_up_at: time },
  "trigger_disabled": { trigger: words("guardian_claim") },
  "claim_closed": { state: words("contested") },
  "claim_cooling_down": { until: time },
  "too_few_guardians": { guardians: count(2), required: count(3) },
  "stale_asset": { key_epoch: count(1) },
  "forbidden_person": { role: guest.optional(), status: words("pending").optional() },
  "endpoint_removed": { replacement: words("POST /api/vault/:id/release").optional() },
  "service_unavailable": { reason },
};

/** The fields of every refusal. Spec section 7. */
export const REQUEST_ID = words("0b9b0c53-61ae-4a53-8f8e-8a7a3ad4d0f1").describe(
  "The `x-request-id` of the answer",
);
