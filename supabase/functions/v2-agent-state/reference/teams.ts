/** What people do together: teams, their keys and memories. Spec 4.5. */

import { z } from "zod";
import type { Operations } from "../../_shared/reference/operation.ts";
import { bytes, count, time, uuid, words } from "../../_shared/reference/shapes.ts";
import { GUARDIAN, INVITATION, SUBKEY, SUBKEY_ID, TOKEN } from "../handlers/team_members.ts";
import { MEMORIES_PAGE, MEMORY } from "../handlers/team_memories.ts";
import { GRANT, NEW_TEAM, ROTATION } from "../handlers/teams.ts";
import { TEAM } from "../middleware/team_arguments.ts";
import { REVOKED_KEY } from "./account.ts";
import { type Scene, SHOWN } from "./scene.ts";

const PEM = "-----BEGIN PUBLIC KEY-----\n" +
  "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEf8TtKkH0DXBGyHiyRZ2JqFXgnQXV\n" +
  "gDHCq5Yy8n2nq0kB0m2Vv1mZ0b3a5vJcD9w4y7yq3o0kq1rX8t6u5b4c3d==\n-----END PUBLIC KEY-----\n";
const WRAPPED = "AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyAhIiMkJSYnKA==";
const CIPHERTEXT = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKisuLzAx";

const ROLE = z.enum(["admin", "write", "read"]);
const team_id = uuid(SHOWN.teamId);
const SHOWN_TEAM = z.object({
  id: team_id,
  name: words("Night shift"),
  role: ROLE.describe("The caller's"),
  rotation_seq: count(0),
  created_at: time,
}).meta({ id: "Team" });
const LISTED_TEAM = SHOWN_TEAM.extend({
  rotation_due: z.literal(true).optional().describe(
    "Somebody who held the key was removed by the directory, and it has not been rotated since",
  ),
}).meta({ id: "ListedTeam" });
const MEMBER = z.object({
  member_id: words("user-2"),
  role: ROLE,
  status: z.literal("active"),
  has_grant: z.boolean().meta({ examples: [true] }),
  created_at: time,
  scim_user_id: uuid(SHOWN.scimUserId).optional().describe("Of whom the directory manages"),
}).meta({ id: "Member" });
const SHOWN_GRANT = z.object({
  team_id,
  wrapped_dek: words(WRAPPED),
  member_pubkey: words(PEM),
  rotation_seq: count(0),
}).meta({ id: "Grant" });
const SHOWN_ROTATION = z.object({
  team_id,
  rotation_seq: count(1),
  revoked: words("user-2").nullable().describe("Who was removed"),
  rewrapped: count(1),
  reason: words("manual_rotation"),
}).meta({ id: "Rotation" });
const WRITTEN = z.object({
  id: uuid("d09c7f1a-4be2-4a7d-9c33-8f1e2d6b5a70"),
  seq: count(0),
  rotation_seq: count(0),
  created_at: time,
}).meta({ id: "WrittenMemory" });
const SHOWN_MEMORY = z.object({
  ...WRITTEN.shape,
  ciphertext_b64: bytes(CIPHERTEXT),
  author_id: words("user-1").nullable().describe("Null when their account was removed"),
  byte_size: count(48),
}).meta({ id: "Memory" });
const SYNC = z.object({
  agent_key: words("user-1"),
  op: z.literal("write"),
  bytes: count(48),
  latency_ms: count(5),
  synced_at: time,
}).meta({ id: "SyncLogEntry" });
const NEW_SUBKEY = z.object({
  id: uuid(SHOWN.subkeyId),
  name: words("night agent"),
  team_id,
  bound_member_id: words("user-1"),
  masked_key: words("sov_live_…x7Kq"),
  created_at: time,
  raw_secret: words("sov_live_4fXqUuB2m9…").describe("Shown in this answer and never again"),
}).meta({ id: "NewSubkey" });
const invitation_id = uuid("58c1d7b2-6e0f-4a93-b8d4-7f21e9a0c364");
const INVITED = z.object({
  invitation_id,
  team_id,
  email: words("bob@example.com"),
  role: ROLE,
  expires_at: time,
}).meta({ id: "Invitation" });
const INVITED_GUARDIAN = z.object({
  invitation_id,
  guardian_email: words("carol@example.com"),
  type: z.literal("guardian"),
  expires_at: time,
}).meta({ id: "GuardianInvitation" });
const invited = { invitation_id, type: z.enum(["member", "guardian"]), team_name: words("Night shift") };
const OPEN_INVITATION = z.object({
  ...invited,
  role: ROLE.nullable(),
  expires_at: time,
  accepted: z.literal(false),
}).meta({ id: "OpenInvitation" }).describe("Without a session: what the invitation is");
const ACCEPTED_INVITATION = z.object({
  ...invited,
  team_id,
  role: ROLE.nullable(),
  accepted: z.literal(true),
}).meta({ id: "AcceptedInvitation" }).describe("With a session: the caller has joined");

const FIELDS = {
  id: "The team",
  member_pubkey: "PEM; the server never reads what is in it",
  owner_pubkey: "PEM; the server never reads what is in it",
  wrapped_dek: "The team's key, wrapped for the member; opaque",
  owner_wrapped_dek: "The team's key, wrapped for the caller; opaque",
  member_id: "The subject of the member's sessions",
  rotation_seq: "When given: the epoch that this was made in, and the running one has to be the same",
};
const IN_TEAM = ["not_a_team_member", "forbidden_role"] as const;
const SEAT_ERRORS = [
  "seat_limit_reached",
  "billing_not_configured",
  "payment_provider_refused",
  "payment_provider_unavailable",
] as const;

export const TEAM_OPERATIONS: Operations<Scene> = {
  "POST /teams": {
    tag: "Teams",
    summary: "Make a team",
    description: "The caller is its admin and holds the first grant.",
    body: NEW_TEAM,
    fields: FIELDS,
    answers: { 201: { body: SHOWN_TEAM } },
    example: () => ({ body: { name: "Night shift", owner_pubkey: PEM, owner_wrapped_dek: WRAPPED } }),
  },
  "GET /teams": {
    tag: "Teams",
    summary: "List the teams of the caller",
    answers: { 200: { body: z.object({ teams: z.array(LISTED_TEAM) }) } },
    example: () => ({}),
  },
  "GET /teams/:id/members": {
    tag: "Teams",
    summary: "Who is in a team",
    path: TEAM,
    fields: FIELDS,
    answers: { 200: { body: z.object({ team_id, members: z.array(MEMBER) }) } },
    errors: ["not_a_team_member"],
    example: ({ teamId }) => ({ path: { id: teamId } }),
  },
  "POST /teams/:id/grants": {
    tag: "Teams",
    summary: "Wrap the team's key for somebody",
    description: "For an admin. Who is not in the team yet joins it, and takes a seat.",
    path: TEAM,
    body: GRANT,
    fields: FIELDS,
    answers: { 201: { body: z.object({ team_id, member_id: words("user-3"), role: ROLE }) } },
    errors: [...IN_TEAM, ...SEAT_ERRORS, "stale_rotation", "last_admin", "member_not_signed_in"],
    example: ({ teamId }) => ({
      path: { id: teamId },
      body: { member_id: "user-3", member_pubkey: PEM, wrapped_dek: WRAPPED, role: "write" },
    }),
  },
  "GET /teams/:id/grant": {
    tag: "Teams",
    summary: "The caller's own wrapped key",
    path: TEAM,
    fields: FIELDS,
    answers: { 200: { body: SHOWN_GRANT } },
    errors: ["not_a_team_member", "no_grant"],
    example: ({ teamId }) => ({ path: { id: teamId } }),
  },
  "POST /teams/:id/rotate": {
    tag: "Teams",
    summary: "Rotate the team's key, and remove somebody",
    description:
      "For an admin. `grants` wraps the new key for exactly those who hold one and stay. One transaction.",
    path: TEAM,
    body: ROTATION,
    fields: FIELDS,
    answers: { 200: { body: SHOWN_ROTATION } },
    errors: [...IN_TEAM, "incomplete_grants", "unknown_member", "stale_rotation", "last_admin"],
    example: ({ teamId, memberId, callerId }) => ({
      path: { id: teamId },
      body: {
        revoke_member_id: memberId,
        reason: "left the company",
        grants: [{ member_id: callerId, wrapped_dek: WRAPPED }],
      },
    }),
  },
  "POST /teams/:id/memories": {
    tag: "Team memory",
    summary: "Append to the shared memory",
    path: TEAM,
    body: MEMORY,
    fields: { ...FIELDS, agent_key: "Who wrote it, in the sync log; the caller when absent" },
    answers: { 201: { body: WRITTEN } },
    errors: [...IN_TEAM, "no_grant", "stale_rotation", "chunk_too_large"],
    example: ({ teamId }) => ({ path: { id: teamId }, body: { ciphertext_b64: CIPHERTEXT } }),
  },
  "GET /teams/:id/memories": {
    tag: "Team memory",
    summary: "Read the shared memory in order",
    description: "Streamed. The last `seq` of an answer is the next `since`.",
    path: TEAM,
    query: MEMORIES_PAGE,
    fields: { ...FIELDS, since: "Only entries after this one", limit: "At most so many; 1000 when absent" },
    answers: {
      200: {
        body: z.object({
          team_id,
          memories: z.array(SHOWN_MEMORY),
          has_more: z.boolean().meta({ examples: [false] }),
        }),
      },
    },
    errors: ["not_a_team_member"],
    example: ({ teamId }) => ({ path: { id: teamId }, query: { since: -1, limit: 100 } }),
  },
  "GET /teams/:id/sync-log": {
    tag: "Team memory",
    summary: "What was synced, newest first",
    path: TEAM,
    fields: FIELDS,
    answers: { 200: { body: z.object({ team_id, entries: z.array(SYNC).max(200) }) } },
    errors: ["not_a_team_member"],
    example: ({ teamId }) => ({ path: { id: teamId } }),
  },
  "POST /teams/:id/subkeys": {
    tag: "Teams",
    summary: "Make a key for an agent of the team",
    description:
      "It acts within the role of the member that it is bound to. Binding it to another is for admins.",
    path: TEAM,
    body: SUBKEY,
    fields: { ...FIELDS, bound_member_id: "The caller when absent" },
    answers: { 201: { body: NEW_SUBKEY } },
    errors: [...IN_TEAM, "no_grant"],
    example: ({ teamId }) => ({ path: { id: teamId }, body: { name: "night agent" } }),
  },
  "DELETE /teams/:id/subkeys/:key_id": {
    tag: "Teams",
    summary: "Revoke a key of the team for good",
    path: TEAM.extend(SUBKEY_ID.shape),
    fields: { ...FIELDS, key_id: "The key" },
    answers: { 200: { body: REVOKED_KEY } },
    errors: [...IN_TEAM, "api_key_not_found"],
    example: ({ teamId, subkeyId }) => ({ path: { id: teamId, key_id: subkeyId } }),
  },
  "POST /teams/:id/invitations": {
    tag: "Teams",
    summary: "Invite somebody by mail",
    description: "For an admin. The token goes out by mail only.",
    path: TEAM,
    body: INVITATION,
    fields: FIELDS,
    answers: { 201: { body: INVITED } },
    errors: [...IN_TEAM, ...SEAT_ERRORS],
    example: ({ teamId }) => ({ path: { id: teamId }, body: { email: "bob@example.com", role: "write" } }),
  },
  "POST /teams/:id/guardians/invite": {
    tag: "Teams",
    summary: "Invite a guardian of the team's key by mail",
    path: TEAM,
    body: GUARDIAN,
    fields: FIELDS,
    answers: { 201: { body: INVITED_GUARDIAN } },
    errors: IN_TEAM,
    example: ({ teamId }) => ({ path: { id: teamId }, body: { guardian_email: "carol@example.com" } }),
  },
  "POST /invitations/accept": {
    tag: "Teams",
    summary: "Say what an invitation is; with a session, accept it",
    body: TOKEN,
    fields: { token: "From the mail" },
    answers: { 200: { body: z.union([OPEN_INVITATION, ACCEPTED_INVITATION]) } },
    errors: ["invitation_not_found"],
    example: ({ invitationToken }) => ({ body: { token: invitationToken } }),
  },
};
