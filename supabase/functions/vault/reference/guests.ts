/** What heirs and guardians do with the token from their mail. Spec 4.9; docs/vault.md. */

import { z } from "zod";
import type { ErrorCode } from "../../_shared/errors.ts";
import type { Operations } from "../../_shared/reference/operation.ts";
import { count, uuid } from "../../_shared/reference/shapes.ts";
import { ACCEPTANCE, ASSET_ID, CLAIM as NEW_CLAIM, CLAIM_ID, TOKEN, VOTE } from "../handlers/guests.ts";
import { VAULT as VAULT_ID } from "../middleware/vault_arguments.ts";
import { type Scene, SHOWN } from "./scene.ts";
import { CLAIM, GUEST, PICK_UP, WHOLE_PICKED_ASSET } from "./shapes.ts";

const ONE_CLAIM = VAULT_ID.extend(CLAIM_ID.shape);
const GUESTS: readonly ErrorCode[] = ["invitation_not_found", "rate_limited"];
const AT_VAULT: readonly ErrorCode[] = [...GUESTS, "vault_not_found", "forbidden_person"];

const bearing = ({ token }: Scene) => ({ body: { token } });
const aboutClaim = ({ vaultId, claimId, token }: Scene) => ({
  path: { id: vaultId, claim_id: claimId },
  body: { token },
});

export const GUEST_OPERATIONS: Operations<Scene> = {
  "POST /api/vault/invitation": {
    tag: "By token",
    summary: "What a token is for",
    body: TOKEN,
    answers: { 200: { body: GUEST } },
    errors: GUESTS,
    example: bearing,
  },
  "POST /api/vault/invitation/accept": {
    tag: "By token",
    summary: "Accept to be an heir or guardian",
    body: ACCEPTANCE,
    answers: { 200: { body: GUEST } },
    errors: GUESTS,
    example: ({ token, publicKey }) => ({ body: { token, public_key: publicKey } }),
  },
  "POST /api/vault/invitation/decline": {
    tag: "By token",
    summary: "Decline, or leave; the token is worth nothing afterwards",
    body: TOKEN,
    answers: {
      200: {
        body: z.object({
          vault_id: uuid(SHOWN.vaultId),
          role: z.enum(["heir", "guardian"]),
          status: z.literal("declined"),
        }),
      },
    },
    errors: GUESTS,
    example: bearing,
  },
  "POST /api/vault/:id/claim": {
    tag: "By token",
    summary: "Claim, as a guardian, that it is time; that is a vote as well",
    path: VAULT_ID,
    body: NEW_CLAIM,
    answers: { 201: { body: CLAIM } },
    errors: [
      ...AT_VAULT,
      "wrong_vault_state",
      "trigger_disabled",
      "claim_exists",
      "claim_cooling_down",
      "too_few_guardians",
      "no_confirmed_heir",
    ],
    example: ({ vaultId, token }) => ({
      path: { id: vaultId },
      body: { token, reason: "We have not heard from her" },
    }),
  },
  "POST /api/vault/:id/claim/:claim_id/vote": {
    tag: "By token",
    summary: "Vote on a claim, or change a vote",
    path: ONE_CLAIM,
    body: VOTE,
    answers: { 200: { body: CLAIM } },
    errors: [...AT_VAULT, "claim_not_found", "claim_closed"],
    example: (scene) => ({ ...aboutClaim(scene), body: { token: scene.token, vote: "concur" } }),
  },
  "POST /api/vault/:id/claim/:claim_id/withdraw": {
    tag: "By token",
    summary: "Take a claim back, while votes are gathered",
    path: ONE_CLAIM,
    body: TOKEN,
    answers: { 200: { body: CLAIM } },
    errors: [...AT_VAULT, "claim_not_found", "claim_closed"],
    example: aboutClaim,
  },
  "POST /api/vault/:id/pick-up": {
    tag: "By token",
    summary: "Fetch, as a confirmed heir, what is wrapped; only after the release",
    path: VAULT_ID,
    body: TOKEN,
    answers: { 200: { body: PICK_UP } },
    errors: [...AT_VAULT, "not_released"],
    example: ({ vaultId, token }) => ({ path: { id: vaultId }, body: { token } }),
  },
  "POST /api/vault/:id/pick-up/:asset_id": {
    tag: "By token",
    summary: "Fetch one asset's ciphertext and wrapped key",
    path: VAULT_ID.extend(ASSET_ID.shape),
    body: TOKEN,
    answers: { 200: { body: WHOLE_PICKED_ASSET } },
    errors: [...AT_VAULT, "not_released", "asset_not_found"],
    example: ({ vaultId, assetId, token }) => ({ path: { id: vaultId, asset_id: assetId }, body: { token } }),
  },
  "POST /release/dispatch": {
    tag: "Jobs",
    summary: "Move on the vaults whose time has come, in one bounded run",
    answers: { 200: { body: z.object({ looked_at: count(3), moved: count(1), failed: count(0) }) } },
    example: () => ({}),
  },
};
