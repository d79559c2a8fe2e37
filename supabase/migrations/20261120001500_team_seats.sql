-- Seats: how many people a team may have. Spec 4.5 (invitations, grants), 4.6 and 8.
--
-- A seat is taken by an active member and by an open invitation. The seats are those of the subscription of the
-- account that owns the team. On plans that scale, a seat is added when all are taken. Where there is a payment
-- provider, the function that needs the seat says how many there must be, the service tells the provider, and the
-- function is called again with that number. On other plans the request is refused. The owner is told either way.

create table app.team_invitations (
  id uuid primary key default gen_random_uuid(),
  team_id uuid not null references app.teams (id) on delete cascade,
  kind text not null check (kind in ('member', 'guardian')),
  email text not null check (email <> ''),
  role text check (role in ('admin', 'write', 'read')),
  invited_by uuid not null references app.accounts (id) on delete cascade,
  -- Null until the mail goes out: the token is made then, and is nowhere but in the mail.
  token_hash bytea unique check (octet_length(token_hash) = 32),
  created_at timestamptz not null default now(),
  expires_at timestamptz not null default now() + interval '7 days',
  accepted_at timestamptz,
  accepted_by uuid references app.accounts (id) on delete set null,
  check ((kind = 'member') = (role is not null))
);
create index team_invitations_by_team on app.team_invitations (team_id, lower(email)) where accepted_at is null;
create index team_invitations_of_team on app.team_invitations (team_id);
create index team_invitations_by_inviter on app.team_invitations (invited_by);
create index team_invitations_by_guest on app.team_invitations (accepted_by);
alter table app.team_invitations enable row level security;

-- app.included_seats: what a plan comes with ------------------------------------------------------------------
create function app.included_seats(p_plan text)
returns int
language sql
immutable
parallel safe
set search_path = ''
as $$
  select case p_plan when 'pro' then 5 when 'growth' then 10 when 'enterprise' then 25 else 3 end
$$;
revoke execute on function app.included_seats(text) from public, anon, authenticated;

-- app.count_seats: seats that are taken -----------------------------------------------------------------------
create function app.count_seats(p_team_id uuid)
returns int
language sql
stable
set search_path = ''
as $$
  select (select count(*) from app.team_members where team_id = p_team_id and status = 'active')::int
       + (select count(*) from app.team_invitations
           where team_id = p_team_id and kind = 'member' and accepted_at is null and expires_at > now())::int
$$;
revoke execute on function app.count_seats(uuid) from public, anon, authenticated;

-- app.tell_owner: mail about seats to the account that owns a team ---------------------------------------------
-- That the limit was reached is said once a day, however often somebody tries.
create function app.tell_owner(p_team app.teams, p_kind text, p_seats int)
returns void
language plpgsql
set search_path = ''
as $$
declare
  v_email text;
begin
  select email into v_email from app.accounts where id = p_team.account_id;
  if v_email is null or p_kind = 'seat_limit_reached' and exists (
    select from app.mail_outbox
     where kind = p_kind and subject_id = p_team.id and created_at > now() - interval '1 day'
  ) then
    return;
  end if;
  perform app.queue_mail(
    p_kind, v_email, p_team.id, jsonb_build_object('team_name', p_team.name, 'seat_count', p_seats));
end
$$;
revoke execute on function app.tell_owner(app.teams, text, int) from public, anon, authenticated;

-- app.find_seat: is there room for one more? ------------------------------------------------------------------
-- An open invitation to `p_guest_email` has its seat already, and is not counted. `p_seats` is what the provider
-- has been told, or null. Returns null when there is room, else what must be answered first:
-- {"seats_needed", "polar_subscription_id"} or {"refused": "seat_limit_reached", …}. The caller holds the team's
-- lock; the subscription's row is locked too, since one owner may have several teams.
create function app.find_seat(p_team app.teams, p_guest_email text, p_seats int)
returns jsonb
language plpgsql
set search_path = ''
as $$
declare
  v_subscription app.subscriptions;
  v_taken int := app.count_seats(p_team.id) - exists (
    select from app.team_invitations
     where team_id = p_team.id and kind = 'member' and lower(email) = lower(p_guest_email)
       and accepted_at is null and expires_at > now()
  )::int;
  v_limit int;
  v_seats int := p_seats;
begin
  select * into v_subscription from app.subscriptions
   where account_id = p_team.account_id and status <> 'canceled' for no key update;
  v_limit := coalesce(v_subscription.seat_count, app.included_seats(v_subscription.plan));
  if v_taken < v_limit then
    return null;
  elsif v_subscription.plan is null or v_subscription.plan not in ('growth', 'pro', 'enterprise') then
    perform app.tell_owner(p_team, 'seat_limit_reached', v_limit);
    return jsonb_build_object('refused', 'seat_limit_reached', 'seats', v_limit, 'seats_taken', v_taken);
  elsif v_subscription.polar_subscription_id is null then
    v_seats := v_taken + 1;
  elsif p_seats is null or p_seats <= v_taken then
    return jsonb_build_object(
      'seats_needed', v_taken + 1, 'polar_subscription_id', v_subscription.polar_subscription_id);
  end if;
  update app.subscriptions
     set seat_count = v_seats, included_seats = coalesce(included_seats, v_limit), updated_at = now()
   where account_id = p_team.account_id;
  perform app.tell_owner(p_team, 'seat_added', v_seats);
  return null;
end
$$;
revoke execute on function app.find_seat(app.teams, text, int) from public, anon, authenticated;
