/** What a vault's owner does. Spec 4.9; docs/vault.md. */

import { z } from "zod";
import { AUDIT_FORMAT } from "../../_shared/domain/audit_format.ts";
import type { ErrorCode } from "../../_shared/errors.ts";
import { AUDIT_ENTRY, CHAIN_REPORT, HEAD } from "../../_shared/reference/audit.ts";
import type { Operation, Operations } from "../../_shared/reference/operation.ts";
import { time, uuid, words } from "../../_shared/reference/shapes.ts";
import { ASSET as ASSET_ID, KEYS, NEW_ASSET } from "../handlers/assets.ts";
import { PAGE, PERIOD } from "../handlers/audit.ts";
import { CHANGE as CHANGE_ID, CONFIG, REARMING } from "../handlers/release.ts";
import { CONFIRMATION, NEW_PERSON, NEW_VAULT, PERSON } from "../handlers/vaults.ts";
import { VAULT as VAULT_ID } from "../middleware/vault_arguments.ts";
import { type Scene, SHOWN } from "./scene.ts";
import { ASSET, CHANGE, GUARDIAN, HEIR, VAULT, VAULT_LINE, WHOLE_ASSET } from "./shapes.ts";

const vault_id = uuid(SHOWN.vaultId);
const ONE_PERSON = VAULT_ID.extend(PERSON.shape);
const ONE_ASSET = VAULT_ID.extend(ASSET_ID.shape);
const REMOVED = { id: uuid(SHOWN.heirId), status: z.literal("removed") };
const about = ({ vaultId }: Scene) => ({ path: { id: vaultId } });

/** The routes of heirs and of guardians are the same but for the word. */
function peopleOperations(role: "heir" | "guardian"): Operations<Scene> {
  const tag = "Heirs and guardians";
  const Role = role === "heir" ? "Heir" : "Guardian";
  const one = role === "heir" ? "an heir" : "a guardian";
  const body = role === "heir" ? HEIR : GUARDIAN;
  const who = ({ vaultId, heirId, guardianId }: Scene) => ({
    path: { id: vaultId, person_id: role === "heir" ? heirId : guardianId },
  });
  return {
    [`POST /api/vault/:id/${role}`]: {
      tag,
      id: `add${Role}`,
      summary: `Name ${one}, who is invited by mail`,
      path: VAULT_ID,
      body: NEW_PERSON,
      answers: { 201: { body } },
      errors: ["vault_not_found", "person_exists", "vault_limit_reached", "wrong_vault_state"],
      example: (scene) => ({ ...about(scene), body: { name: "Ben", email: "ben@example.com" } }),
    },
    [`DELETE /api/vault/:id/${role}/:person_id`]: {
      tag,
      id: `remove${Role}`,
      summary: `Remove ${one}`,
      description: "At once while they have not accepted; later after the cooling period, with 202.",
      path: ONE_PERSON,
      answers: {
        200: { body: z.object(REMOVED) },
        202: { body: z.object({ id: uuid(SHOWN.heirId), status: words("confirmed"), change: CHANGE }) },
      },
      errors: ["vault_not_found", "person_not_found", "wrong_vault_state"],
      example: who,
    },
    [`POST /api/vault/:id/${role}/:person_id/confirm`]: {
      tag,
      id: `confirm${Role}`,
      summary: `Confirm ${one} who has accepted, and wrap a share for them`,
      path: ONE_PERSON,
      body: CONFIRMATION,
      answers: { 200: { body } },
      errors: [
        "vault_not_found",
        "person_not_found",
        "person_not_accepted",
        "vault_limit_reached",
        "wrong_vault_state",
      ],
      example: (scene) => ({ ...who(scene), body: { wrapped_share: "d3JhcHBlZA==" } }),
    },
    [`POST /api/vault/:id/${role}/:person_id/resend`]: {
      tag,
      id: `resend${Role}`,
      summary: "Send the invitation again; earlier tokens stop working",
      path: ONE_PERSON,
      answers: { 200: { body } },
      errors: ["vault_not_found", "person_not_found", "wrong_vault_state"],
      example: who,
    },
  };
}

/** What an owner does to a release who proves to be alive: signed in, or with a key that may check in. */
function byTheLiving(summary: string, errors: readonly ErrorCode[] = []): Operation<Scene> {
  return {
    tag: "Release",
    summary,
    description: "By session, or by a key of scope `vault:check_in`.",
    path: VAULT_ID,
    answers: { 200: { body: VAULT } },
    errors: ["vault_not_found", "proof_of_life_required", ...errors],
    example: about,
  };
}

/** What an owner does to a release who has signed in. A key is told what is wrong with it, and never let in. */
function bySession(summary: string, errors: readonly ErrorCode[]): Operation<Scene> {
  return {
    tag: "Release",
    summary,
    path: VAULT_ID,
    schemes: ["session"],
    answers: { 200: { body: VAULT } },
    errors: ["vault_not_found", "session_jwt_required", "forbidden_scope", "wrong_vault_state", ...errors],
    example: about,
  };
}

export const OWNER_OPERATIONS: Operations<Scene> = {
  "GET /api/vault": {
    tag: "Vaults",
    summary: "List vaults, oldest first",
    answers: { 200: { body: z.object({ vaults: z.array(VAULT_LINE) }) } },
    example: () => ({}),
  },
  "POST /api/vault": {
    tag: "Vaults",
    summary: "Make a vault; nothing is armed yet",
    body: NEW_VAULT,
    fields: { sss_preset: "Shares: `standard` any 2 of 3, `enhanced` any 3 of 5" },
    answers: { 201: { body: VAULT } },
    errors: ["vault_limit_reached"],
    example: () => ({ body: { name: "Papers", sss_preset: "standard" } }),
  },
  "GET /api/vault/:id": {
    tag: "Vaults",
    summary: "A vault as it is now, without ciphertext and what is wrapped",
    path: VAULT_ID,
    answers: { 200: { body: VAULT } },
    errors: ["vault_not_found"],
    example: about,
  },
  ...peopleOperations("heir"),
  ...peopleOperations("guardian"),
  "POST /api/vault/:id/asset": {
    tag: "Assets",
    summary: "Add an asset: ciphertext, and its key wrapped for heirs",
    path: VAULT_ID,
    body: NEW_ASSET,
    answers: { 201: { body: ASSET } },
    errors: ["vault_not_found", "unknown_heir", "vault_limit_reached", "wrong_vault_state"],
    example: (scene) => ({
      ...about(scene),
      body: {
        name: "will.txt",
        ciphertext_b64: "b3BhcXVl",
        wrapped_keys: [{ heir_id: scene.heirId, wrapped_key: "c2VhbGVk" }],
      },
    }),
  },
  "GET /api/vault/:id/asset/:asset_id": {
    tag: "Assets",
    summary: "An asset with its ciphertext",
    path: ONE_ASSET,
    answers: { 200: { body: WHOLE_ASSET } },
    errors: ["vault_not_found", "asset_not_found"],
    example: ({ vaultId, assetId }) => ({ path: { id: vaultId, asset_id: assetId } }),
  },
  "DELETE /api/vault/:id/asset/:asset_id": {
    tag: "Assets",
    summary: "Remove an asset, unless a release runs",
    path: ONE_ASSET,
    answers: { 200: { body: z.object({ ...REMOVED, id: uuid(SHOWN.assetId) }) } },
    errors: ["vault_not_found", "asset_not_found", "wrong_vault_state"],
    example: ({ vaultId, assetId }) => ({ path: { id: vaultId, asset_id: assetId } }),
  },
  "POST /api/vault/:id/asset/:asset_id/keys": {
    tag: "Assets",
    summary: "Wrap an asset's key for more heirs, or anew",
    path: ONE_ASSET,
    body: KEYS,
    answers: { 200: { body: ASSET } },
    errors: ["vault_not_found", "asset_not_found", "unknown_heir", "stale_asset", "wrong_vault_state"],
    example: ({ vaultId, assetId, heirId }) => ({
      path: { id: vaultId, asset_id: assetId },
      body: { wrapped_keys: [{ heir_id: heirId, wrapped_key: "c2VhbGVk" }] },
    }),
  },
  "POST /api/vault/:id/release/config": {
    tag: "Release",
    summary: "Set a trigger up",
    description: "What makes the vault weaker stands in `pending_changes` until the cooling period is over.",
    path: VAULT_ID,
    body: CONFIG,
    answers: { 200: { body: VAULT } },
    errors: ["vault_not_found", "wrong_vault_state"],
    example: (scene) => ({
      ...about(scene),
      body: { trigger: "dead_man_switch", config: { check_in_interval_days: 30, grace_days: 7 } },
    }),
  },
  "DELETE /api/vault/:id/changes/:change_id": {
    tag: "Release",
    summary: "Cancel a change that waits",
    path: VAULT_ID.extend(CHANGE_ID.shape),
    answers: { 200: { body: z.object({ id: uuid(SHOWN.changeId), state: z.literal("canceled") }) } },
    errors: ["vault_not_found", "change_not_found"],
    example: ({ vaultId, changeId }) => ({ path: { id: vaultId, change_id: changeId } }),
  },
  "POST /api/vault/:id/check-in": byTheLiving("Say that the owner lives"),
  "POST /api/vault/:id/release": bySession("Release by hand, after the window", ["no_confirmed_heir"]),
  "POST /api/vault/:id/release/veto": byTheLiving("Veto a release or a claim, before the first pick-up", [
    "nothing_to_veto",
    "already_picked_up",
  ]),
  "POST /api/vault/:id/release/rearm": {
    ...bySession("Arm a released vault again, with new keys", ["incomplete_shares"]),
    description: "With a new share for exactly those who hold one. What was wrapped before is burnt.",
    body: REARMING,
    example: (scene) => ({
      ...about(scene),
      body: {
        key_epoch: 1,
        wrapped_shares: [
          { person_id: scene.heirId, wrapped_share: "d3JhcHBlZA==" },
          { person_id: scene.guardianId, wrapped_share: "bmV3bHk=" },
        ],
      },
    }),
  },
  "GET /api/vault/:id/audit": {
    tag: "Audit",
    summary: "Entries of the ledger, newest first",
    path: VAULT_ID,
    query: PAGE,
    fields: { limit: "200 when absent" },
    answers: { 200: { body: z.object({ vault_id, entries: z.array(AUDIT_ENTRY).max(1_000) }) } },
    errors: ["vault_not_found"],
    example: (scene) => ({ ...about(scene), query: { limit: 50 } }),
  },
  "GET /api/vault/:id/audit/verify": {
    tag: "Audit",
    summary: "Check the whole chain",
    path: VAULT_ID,
    answers: { 200: { body: z.object({ vault_id, ...CHAIN_REPORT }).meta({ id: "AuditReport" }) } },
    errors: ["vault_not_found"],
    example: about,
  },
  "GET /api/vault/:id/audit/export": {
    tag: "Audit",
    summary: "The ledger with all that is needed to check it offline",
    path: VAULT_ID,
    query: PERIOD,
    answers: {
      200: {
        headers: { "content-disposition": words('attachment; filename="audit.json"') },
        body: z.object({
          format: z.literal(AUDIT_FORMAT),
          vault_id,
          from: time.optional(),
          to: time.optional(),
          ...HEAD,
          entries: z.array(AUDIT_ENTRY),
        }).meta({ id: "AuditExport" }),
      },
    },
    errors: ["vault_not_found"],
    example: (scene) => ({ ...about(scene), query: { from: "2026-01-01" } }),
  },
};
