/** Mail for tests: queued as the service's own functions do, looked at afterwards. */

import type { Mail, Mailer } from "../../supabase/functions/_shared/platform/mod.ts";
import type { World } from "./harness.ts";

/** Settings without and with a dashboard. */
export const NO_APP = { appUrl: undefined };
export const APP = { appUrl: "https://app.example" };
const EXPIRES_AT = "2026-12-01T08:00:00.000Z";
/** What the templates need, but for what delivery adds. */
export const SEAT_FACTS = { team_name: "Night shift", seat_count: 6 };
export const INVITATION_FACTS = {
  team_name: "Night shift",
  inviter: "ada",
  role: "read",
  expires_at: EXPIRES_AT,
};

/** Stands in for the invitations, so that these tests are about their mail only. */
const INVITATIONS = `
  create table if not exists public.invitations (id uuid primary key, token_hash bytea);
  create or replace function api.mint_invitation_token(p_invitation_id uuid, p_token_hash bytea) returns jsonb
  language sql security definer set search_path = '' as $$
    update public.invitations set token_hash = p_token_hash where id = p_invitation_id
    returning jsonb_build_object('expires_at', '${EXPIRES_AT}')
  $$;
  grant execute on function api.mint_invitation_token(uuid, bytea) to service_role`;

/** Queues a mail: kind, recipient, subject and facts. */
export const QUEUE = "select app.queue_mail($1, $2, $3, $4::jsonb) as id";

/** Queues a mail about a seat, unless told otherwise, to somebody new. */
export async function queue(
  world: World,
  facts: object = SEAT_FACTS,
  kind = "seat_added",
  subjectId?: string,
) {
  const recipient = `${crypto.randomUUID()}@example.com`;
  const { rows } = await world.sql.query(QUEUE, [kind, recipient, subjectId ?? null, JSON.stringify(facts)]);
  return { id: rows[0].id as string, recipient };
}

/** Queues the mail of an invitation that is open, unless told otherwise. */
export async function queueInvitation(world: World, facts: object = INVITATION_FACTS, open = true) {
  const invitationId = crypto.randomUUID();
  await world.sql.query(INVITATIONS);
  if (open) await world.sql.query("insert into public.invitations values ($1)", [invitationId]);
  return { invitationId, ...await queue(world, facts, "team_invitation", invitationId) };
}

/** What the outbox says of a mail. */
// deno-lint-ignore no-explicit-any
export async function rowOf(world: World, id: string): Promise<any> {
  return (await world.sql.query("select * from app.mail_outbox where id = $1", [id])).rows[0];
}

/** Lets the time pass that a mail has to wait. */
export async function makeDue(world: World): Promise<void> {
  await world.sql.query(`
    update app.mail_outbox set next_attempt_at = now() - interval '1 second',
           lease_expires_at = lease_expires_at - interval '1 day'
     where sent_at is null and given_up_at is null`);
}

/** What was sent to the recipient of a mail. */
export function mailsTo(world: World, { recipient }: { recipient: string }): Mail[] {
  return world.mails.filter((mail) => mail.to === recipient);
}

/** The service with a mailer that fails as `failure` says, and records nothing then. */
export function failing(world: World, failure: (mail: Mail) => Error | undefined): World["platform"] {
  const mailer: Mailer = {
    async send(mail) {
      const error = failure(mail);
      if (error !== undefined) throw error;
      await world.platform.mailer.send(mail);
    },
  };
  return world.with({ mailer }).platform;
}
