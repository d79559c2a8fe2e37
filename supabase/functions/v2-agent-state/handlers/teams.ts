/** Teams, their grants and rotation. Spec 4.5. */

import { z } from "zod";
import type { AppContext } from "../../_shared/context.ts";
import { parseBody } from "../../_shared/middleware/parse.ts";
import { sessionArguments } from "../../_shared/middleware/require_session.ts";
import { epoch, memberId, name, pem, role, text, wrappedKey } from "../../_shared/middleware/shapes.ts";
import { LABEL_LENGTH_MAX, ROTATE_GRANTS_MAX } from "../domain/limits.ts";
import { takeSeat } from "../flows/take_seat.ts";
import { teamArguments } from "../middleware/team_arguments.ts";

/** Bodies of POST /teams, /teams/:id/grants and /teams/:id/rotate. */
export const NEW_TEAM = z.object({
  name,
  owner_pubkey: pem,
  owner_wrapped_dek: wrappedKey,
});
export const GRANT = z.object({
  member_id: memberId,
  member_pubkey: pem,
  wrapped_dek: wrappedKey,
  role,
  rotation_seq: epoch,
});
export const ROTATION = z.object({
  revoke_member_id: memberId.nullish(),
  reason: text(LABEL_LENGTH_MAX).nullish(),
  grants: z.array(z.object({ member_id: memberId, wrapped_dek: wrappedKey }))
    .max(ROTATE_GRANTS_MAX)
    .refine((grants) => new Set(grants.map((grant) => grant.member_id)).size === grants.length),
  rotation_seq: epoch,
});

type Json = Record<string, unknown>;

/** POST /teams: 201 with the new team; the caller is its admin and holds its first grant. */
export async function createTeam(c: AppContext): Promise<Response> {
  const body = await parseBody(c, NEW_TEAM);
  const team = await c.var.platform.db.call<Json>("create_team", {
    ...sessionArguments(c),
    p_team_id: crypto.randomUUID(),
    p_name: body.name,
    p_owner_pubkey: body.owner_pubkey,
    p_owner_wrapped_dek: body.owner_wrapped_dek,
  });
  return c.json(team, 201);
}

/** GET /teams: 200 `{teams}`: those that the caller is an active member of. */
export async function listTeams(c: AppContext): Promise<Response> {
  return c.json({
    teams: await c.var.platform.db.call<Json[]>(
      "list_teams",
      sessionArguments(c),
    ),
  });
}

/** GET /teams/:id/members: 200 `{team_id, members}`. */
export async function listMembers(c: AppContext): Promise<Response> {
  return c.json(
    await c.var.platform.db.call<Json>("list_members", await teamArguments(c)),
  );
}

/** POST /teams/:id/grants: wraps the key for a new or present member. 201 `{team_id, member_id, role}`. */
export async function grantTeamKey(c: AppContext): Promise<Response> {
  const team = await teamArguments(c);
  const body = await parseBody(c, GRANT);
  const { platform, settings } = c.var;
  const granted = await takeSeat(
    platform,
    settings,
    (seats) =>
      platform.db.call<Json>("grant_team_key", {
        ...team,
        p_member_id: body.member_id,
        p_member_pubkey: body.member_pubkey,
        p_wrapped_dek: body.wrapped_dek,
        p_role: body.role,
        p_rotation_seq: body.rotation_seq ?? null,
        p_seats: seats,
      }),
  );
  return c.json(granted, 201);
}

/** GET /teams/:id/grant: 200 with the caller's wrapped key. Errors: `no_grant`. */
export async function readGrant(c: AppContext): Promise<Response> {
  return c.json(
    await c.var.platform.db.call<Json>("read_grant", await teamArguments(c)),
  );
}

/** POST /teams/:id/rotate: re-wraps for all who stay, in one transaction. 200 with the new epoch. */
export async function rotateTeam(c: AppContext): Promise<Response> {
  const team = await teamArguments(c);
  const body = await parseBody(c, ROTATION);
  const rotation = await c.var.platform.db.call<Json>("rotate_team", {
    ...team,
    p_revoke_member_id: body.revoke_member_id ?? null,
    p_reason: body.reason ?? "manual_rotation",
    p_member_ids: body.grants.map((grant) => grant.member_id),
    p_wrapped_deks: body.grants.map((grant) => grant.wrapped_dek),
    p_expected_seq: body.rotation_seq ?? null,
    p_rotation_id: crypto.randomUUID(),
  });
  return c.json(rotation);
}
