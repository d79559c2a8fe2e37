/** Who joins a team, and with which keys: invitations, guardians, sub-keys. Spec 4.5 and 4.8. */

import { z } from "zod";
import type { AppContext } from "../../_shared/context.ts";
import { sha256 } from "../../_shared/domain/bytes.ts";
import { maskKey, mintLiveKey } from "../../_shared/domain/credential.ts";
import { limitTries } from "../../_shared/middleware/limit_tries.ts";
import { parse, parseBody } from "../../_shared/middleware/parse.ts";
import { sessionArguments } from "../../_shared/middleware/require_session.ts";
import { email, id, memberId, name, role, text } from "../../_shared/middleware/shapes.ts";
import { ACCEPT_TRIES_MAX, LABEL_LENGTH_MAX } from "../domain/limits.ts";
import { deliverMailSoon } from "../../_shared/flows/deliver_mail.ts";
import { takeSeat } from "../flows/take_seat.ts";
import { teamArguments } from "../middleware/team_arguments.ts";

/** What the routes below take. */
export const INVITATION = z.object({ email, role: role.default("read") });
export const GUARDIAN = z.object({ guardian_email: email });
export const SUBKEY = z.object({ name, bound_member_id: memberId.nullish() });
export const SUBKEY_ID = z.object({ key_id: id("api_key_not_found") });
export const TOKEN = z.object({ token: text(LABEL_LENGTH_MAX) });

type Json = Record<string, unknown>;

/** POST /teams/:id/invitations: 201 with the invitation; the token goes out by mail only. */
export async function inviteMember(c: AppContext): Promise<Response> {
  const team = await teamArguments(c);
  const body = await parseBody(c, INVITATION);
  const invitationId = crypto.randomUUID();
  const { platform, settings } = c.var;
  const invitation = await takeSeat(
    platform,
    settings,
    (seats) =>
      platform.db.call<Json>("invite_member", {
        ...team,
        p_invitation_id: invitationId,
        p_guest_email: body.email,
        p_role: body.role,
        p_seats: seats,
      }),
  );
  return c.json(invitation, 201);
}

/** POST /teams/:id/guardians/invite: 201 with the invitation. */
export async function inviteGuardian(c: AppContext): Promise<Response> {
  const team = await teamArguments(c);
  const body = await parseBody(c, GUARDIAN);
  const args = { ...team, p_invitation_id: crypto.randomUUID(), p_guest_email: body.guardian_email };
  const invitation = await c.var.platform.db.call<Json>(
    "invite_guardian",
    args,
  );
  deliverMailSoon(c.var.platform, c.var.settings);
  return c.json(invitation, 201);
}

/**
 * POST /invitations/accept: without a session 200 with what the invitation is; with one the caller joins. Errors:
 * `invitation_not_found`, whatever is wrong with the token; `rate_limited`.
 */
export async function acceptInvitation(c: AppContext): Promise<Response> {
  const { token } = await parseBody(c, TOKEN);
  await limitTries(c, "invitation", ACCEPT_TRIES_MAX);
  const args = { p_token_hash: sha256(token) };
  const { db } = c.var.platform;
  return c.json(
    c.var.session === undefined
      ? await db.call<Json>("read_invitation", args)
      : await db.call<Json>("accept_invitation", {
        ...sessionArguments(c),
        ...args,
      }),
  );
}

/** POST /teams/:id/subkeys: 201 with the new key; `raw_secret` is in this answer and nowhere else. */
export async function createSubkey(c: AppContext): Promise<Response> {
  const team = await teamArguments(c);
  const body = await parseBody(c, SUBKEY);
  const secret = mintLiveKey((count) => crypto.getRandomValues(new Uint8Array(count)));
  const key = await c.var.platform.db.call<Json>("create_subkey", {
    ...team,
    p_name: body.name,
    p_bound_member_id: body.bound_member_id ?? null,
    p_key_hash: sha256(secret),
    p_masked_key: maskKey(secret),
  });
  return c.json({ ...key, raw_secret: secret }, 201);
}

/** DELETE /teams/:id/subkeys/:key_id: 200 `{id, revoked_at, message}`. Errors: `api_key_not_found`. */
export async function revokeSubkey(c: AppContext): Promise<Response> {
  const team = await teamArguments(c);
  const { key_id } = await parse(c, SUBKEY_ID, c.req.param());
  return c.json(
    await c.var.platform.db.call<Json>("revoke_subkey", {
      ...team,
      p_key_id: key_id,
    }),
  );
}
