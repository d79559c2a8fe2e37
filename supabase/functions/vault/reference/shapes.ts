/** What the vault interface answers, piece by piece. docs/vault.md. */

import { z } from "zod";
import { bytes, count, time, uuid, words } from "../../_shared/reference/shapes.ts";
import { SHOWN } from "./scene.ts";

const PRESET = z.enum(["standard", "enhanced"]);
const STATE = z.enum(["active", "releasing", "released"]);
const TRIGGER = z.enum(["dead_man_switch", "manual", "guardian_claim"]);
const PEM = words("-----BEGIN PUBLIC KEY-----\nMIIB…\n-----END PUBLIC KEY-----\n");
const flag = z.boolean().meta({ examples: [true] });
const maybe = time.nullable();

const PERSON_PARTS = {
  id: uuid(SHOWN.heirId),
  name: words("Ben"),
  email: words("ben@example.com"),
  walletAddress: words("0x52908400098527886E0F7030069857D2E4169EE7").optional(),
  status: z.enum(["pending", "accepted", "confirmed", "declined", "removed", "expired"]),
  public_key: PEM.nullable(),
  has_share: flag,
  expires_at: maybe.describe("Of the invitation, while it is open"),
  accepted_at: maybe,
  confirmed_at: maybe,
  created_at: time,
};
export const HEIR = z.object({ ...PERSON_PARTS, picked_up_at: maybe }).meta({ id: "Heir" });
export const GUARDIAN = z.object({ ...PERSON_PARTS, cooldown_until: maybe }).meta({ id: "Guardian" });

const ASSET_PARTS = {
  id: uuid(SHOWN.assetId),
  name: words("will.txt"),
  byte_size: count(81),
  key_epoch: count(0),
  created_at: time,
};
const wrapped_for = z.array(uuid(SHOWN.heirId)).describe("Heirs whom its key is wrapped for");
const ciphertext_b64 = bytes("b3BhcXVl");
export const ASSET = z.object({ ...ASSET_PARTS, wrapped_for }).meta({ id: "Asset" });
export const WHOLE_ASSET = z.object({ ...ASSET_PARTS, wrapped_for, ciphertext_b64 }).meta({
  id: "WholeAsset",
});
const wrapped_key = words("c2VhbGVk…").nullable().describe(
  "Wrapped for the heir who asks; null when it is not",
);
const PICKED_ASSET = z.object({ ...ASSET_PARTS, wrapped_key }).meta({ id: "PickedAsset" });
export const WHOLE_PICKED_ASSET = z.object({ ...ASSET_PARTS, wrapped_key, ciphertext_b64 })
  .meta({ id: "WholePickedAsset" });

export const CHANGE = z.object({
  id: uuid(SHOWN.changeId),
  kind: z.enum(["remove_heir", "remove_guardian", "configure"]),
  person_id: uuid(SHOWN.heirId).optional(),
  trigger: TRIGGER.optional(),
  requested_at: time,
  executes_at: time,
  needs_check_in: flag.describe("Whether it also waits for the owner's next proof of life"),
}).meta({ id: "PendingChange" });

export const CLAIM = z.object({
  id: uuid(SHOWN.claimId),
  claimant_id: uuid(SHOWN.guardianId),
  state: z.enum(["gathering_votes", "approved", "contested", "expired", "withdrawn"]),
  reason: words("We have not heard from her").nullable(),
  quorum: count(2),
  concur: count(1),
  reject: count(0),
  created_at: time,
  expires_at: time,
}).meta({ id: "Claim" });

const RELEASE = z.object({
  config: z.object({
    dead_man_switch: z.object({
      enabled: flag,
      check_in_interval_days: count(30),
      grace_days: count(7),
      veto_window_hours: count(168),
    }),
    manual: z.object({ veto_window_hours: count(24) }),
    guardian_claim: z.object({ enabled: flag, quorum: count(2), veto_window_hours: count(336) }),
  }),
  last_check_in_at: time,
  check_in_due_at: maybe,
  deadline: maybe.describe("When a missed check-in begins a release"),
  trigger: TRIGGER.nullable(),
  releasing_since: maybe,
  release_at: maybe.describe("Fixed when the release begins"),
  blocked_since: maybe.describe("Since when it is time, with nobody to release to"),
  released_at: maybe,
  picked_up_at: maybe,
}).meta({ id: "Release" });

const LINE_PARTS = {
  id: uuid(SHOWN.vaultId),
  name: words("Papers"),
  state: STATE,
  sss_preset: PRESET,
  threshold: count(2),
  shares: count(3),
  key_epoch: count(0),
  release_at: maybe,
  created_at: time,
};
export const VAULT_LINE = z.object(LINE_PARTS).meta({ id: "VaultLine" });
export const VAULT = z.object({
  ...LINE_PARTS,
  release: RELEASE,
  heirs: z.array(HEIR),
  guardians: z.array(GUARDIAN),
  assets: z.array(ASSET),
  claim: CLAIM.nullable(),
  pending_changes: z.array(CHANGE),
}).meta({ id: "Vault" });

export const GUEST = z.object({
  vault_id: uuid(SHOWN.vaultId),
  vault_name: words("Papers"),
  person_id: uuid(SHOWN.heirId),
  role: z.enum(["heir", "guardian"]),
  name: words("Ben"),
  status: z.enum(["pending", "accepted", "confirmed"]),
  public_key: PEM.nullable(),
  expires_at: maybe,
  released: flag,
  state: STATE.optional().describe("For confirmed guardians"),
  release_at: maybe.optional().describe("For confirmed guardians"),
  claim: CLAIM.nullable().optional().describe("For confirmed guardians"),
}).meta({ id: "Invitation" });

export const PICK_UP = z.object({
  vault_id: uuid(SHOWN.vaultId),
  vault_name: words("Papers"),
  person_id: uuid(SHOWN.heirId),
  public_key: PEM.nullable(),
  key_epoch: count(0),
  sss_preset: PRESET,
  threshold: count(2),
  released_at: time,
  shares: z.array(z.object({
    person_id: uuid(SHOWN.heirId),
    role: z.enum(["heir", "guardian"]),
    name: words("Ben"),
    email: words("ben@example.com"),
    public_key: PEM.nullable(),
    wrapped_share: words("d3JhcHBlZA…"),
  })),
  assets: z.array(PICKED_ASSET),
}).meta({ id: "PickUp" });
