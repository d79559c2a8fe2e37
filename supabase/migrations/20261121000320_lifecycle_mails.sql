-- Mails that tell people in time what they would want to know: each once.
--
-- A sweep looks for what is due and owes the mail. That it was owed is a row of `app.lifecycle_mails`, written with
-- the mail in one statement: its primary key decides, however many sweeps run at once and wherever one dies. What is
-- due stays so for some days only, so a service that starts sending, or was away, does not tell old news.

-- The account's removal takes its rows along. Kept otherwise: as long as they stand nothing is said twice.
create table app.lifecycle_mails (
  account_id uuid not null references app.accounts (id) on delete cascade,
  kind text not null check (kind ~ '^[a-z]+(_[a-z]+)*$'),
  -- What the mail is about, where an account can have several; empty for what happens once.
  occasion text not null,
  created_at timestamptz not null default now(),
  primary key (account_id, kind, occasion)
);
alter table app.lifecycle_mails enable row level security;

-- None of these is touched by the writes of agents, but for the first snapshot of each.
create index accounts_new on app.accounts (created_at) where subject is not null;
create index snapshots_first on app.snapshots (confirmed_at) where sequence_number = 0 and status = 'confirmed';
create index snapshots_first_by_account on app.snapshots (account_id, confirmed_at)
  where sequence_number = 0 and status = 'confirmed';
create index credit_ledger_added on app.credit_ledger (account_id, id) where kind in ('grant', 'purchase');
create index team_members_new on app.team_members (created_at);
create index subscriptions_ended on app.subscriptions (updated_at) where status = 'canceled';

-- One mail that is due, or (without a recipient) the decision that there is none to send.
create type app.due_mail as (
  account_id uuid, kind text, occasion text, recipient text, subject_id uuid, facts jsonb
);

-- app.due_to_newcomers: a welcome, and a word on the first snapshot -------------------------------------------
create function app.due_to_newcomers()
returns setof app.due_mail
language sql
stable
set search_path = ''
as $$
  select a.id, 'welcome', '', a.email, null::uuid, '{}'::jsonb
    from app.accounts a
   where a.subject is not null and a.email is not null and a.created_at > now() - interval '7 days'
     and not exists (
       select from app.lifecycle_mails l
        where l.account_id = a.id and l.kind = 'welcome' and l.occasion = '')
  union all
  select a.id, 'first_snapshot', '', a.email, null, '{}'
    from app.snapshots s join app.accounts a on a.id = s.account_id
   where s.sequence_number = 0 and s.status = 'confirmed' and s.confirmed_at > now() - interval '7 days'
     and a.subject is not null and a.email is not null
     and not exists (
       select from app.lifecycle_mails l
        where l.account_id = a.id and l.kind = 'first_snapshot' and l.occasion = '')
     and not exists (
       select from app.snapshots e
        where e.account_id = s.account_id and e.sequence_number = 0 and e.status = 'confirmed'
          and e.confirmed_at < s.confirmed_at)
$$;
revoke execute on function app.due_to_newcomers() from public, anon, authenticated;

-- app.due_about_credits: low, and out -------------------------------------------------------------------------
-- Once for each time that credit was added. Low is what `credits.low` calls low; out is less than what the largest
-- snapshot costs. Whoever never had more has not run low: that is noted without a mail, so that it is summed up once.
create function app.due_about_credits()
returns setof app.due_mail
language sql
stable
set search_path = ''
as $$
  with added as (
    select distinct on (l.account_id) l.account_id, l.id
      from app.credit_ledger l where l.kind in ('grant', 'purchase') order by l.account_id, l.id desc
  ),
  short as (
    select a.id, a.email, a.credits_milli, added.id as added_id, level.kind, level.limit_milli
      from added
      join app.accounts a on a.id = added.account_id
      join (values ('credits_out', app.price_milli(262144)), ('credits_low', 100000)) as level (kind, limit_milli)
        on a.credits_milli < level.limit_milli
     where a.email is not null
       and (level.kind = 'credits_out' or a.credits_milli >= app.price_milli(262144))
       and not exists (
         select from app.lifecycle_mails l
          where l.account_id = a.id and l.kind in (level.kind, 'credits_out') and l.occasion = added.id::text)
  )
  select s.id, s.kind, s.added_id::text,
         case when s.credits_milli - (
           select coalesce(sum(l.amount_milli), 0) from app.credit_ledger l
            where l.account_id = s.id and l.id > s.added_id
         ) >= s.limit_milli then s.email end,
         null::uuid, jsonb_build_object('credits_milli', s.credits_milli)
    from short s
$$;
revoke execute on function app.due_about_credits() from public, anon, authenticated;

-- app.due_about_teams: no seat is free; an invitation waits ---------------------------------------------------
-- Looks at teams that somebody has joined, or was invited to, in the last days.
create function app.due_about_teams()
returns setof app.due_mail
language sql
stable
set search_path = ''
as $$
  with busy as (
    select team_id from app.team_members where created_at > now() - interval '7 days'
    union
    select team_id from app.team_invitations where accepted_at is null and expires_at > now()
  ),
  seats as (
    select t.id, t.name, t.account_id, s.plan, coalesce(s.seat_count, app.included_seats(s.plan)) as seat_count
      from busy
      join app.teams t on t.id = busy.team_id
      left join app.subscriptions s on s.account_id = t.account_id and s.status <> 'canceled'
  )
  select a.id, 'seats_full', s.id || ' ' || s.seat_count, a.email, s.id, jsonb_build_object(
           'team_name', s.name, 'seat_count', s.seat_count,
           'adds_seats', case when s.plan in ('growth', 'pro', 'enterprise') then 'yes' else 'no' end)
    from seats s join app.accounts a on a.id = s.account_id
   where a.email is not null
     and not exists (
       select from app.lifecycle_mails l
        where l.account_id = a.id and l.kind = 'seats_full' and l.occasion = s.id || ' ' || s.seat_count)
     and app.count_seats(s.id) >= s.seat_count
  union all
  select i.invited_by, 'invitation_reminder', i.id::text, i.email, i.id, jsonb_strip_nulls(jsonb_build_object(
           'team_name', t.name, 'role', coalesce(i.role, 'guardian'), 'inviter', a.email,
           'expires_at', app.iso(i.expires_at)))
    from app.team_invitations i
    join app.teams t on t.id = i.team_id
    join app.accounts a on a.id = i.invited_by
   where i.accepted_at is null and i.token_hash is not null
     and i.created_at < now() - interval '3 days' and i.expires_at > now() + interval '1 day'
     and not exists (
       select from app.lifecycle_mails l
        where l.account_id = i.invited_by and l.kind = 'invitation_reminder' and l.occasion = i.id::text)
$$;
revoke execute on function app.due_about_teams() from public, anon, authenticated;

-- app.due_about_subscriptions: it was canceled ----------------------------------------------------------------
create function app.due_about_subscriptions()
returns setof app.due_mail
language sql
stable
set search_path = ''
as $$
  with ended as (
    select s.*, concat_ws(' ', s.polar_subscription_id, app.iso(s.current_period_end)) as occasion
      from app.subscriptions s
     where s.status = 'canceled' and s.plan <> 'free' and s.updated_at > now() - interval '7 days'
  )
  select a.id, 'subscription_ending', e.occasion, a.email, null::uuid, jsonb_strip_nulls(jsonb_build_object(
           'plan', e.plan,
           'ends_at', case when e.current_period_end > now() then app.iso(e.current_period_end) end))
    from ended e join app.accounts a on a.id = e.account_id
   where a.email is not null and not exists (
       select from app.lifecycle_mails l
        where l.account_id = a.id and l.kind = 'subscription_ending' and l.occasion = e.occasion)
$$;
revoke execute on function app.due_about_subscriptions() from public, anon, authenticated;

-- app.due_about_certificates: people will not be able to sign in any more --------------------------------------
-- To each admin of the team, a month and a week before. Where single sign-on is not installed there is nothing to say.
create function app.due_about_certificates()
returns setof app.due_mail
language plpgsql
stable
set search_path = ''
as $$
begin
  if to_regclass('app.sso_configs') is null then
    return;
  end if;
  return query
    with expiring as (
      select c.team_id, c.certificate_expires_at as expires_at, concat_ws(' ',
               c.team_id, app.iso(c.certificate_expires_at),
               case when c.certificate_expires_at < now() + interval '7 days' then 'week' else 'month' end) as occasion
        from app.sso_configs c
       where c.enabled and c.certificate_expires_at > now()
         and c.certificate_expires_at < now() + interval '30 days'
    )
    select a.id, 'certificate_expiring', e.occasion, a.email, t.id, jsonb_build_object(
             'team_name', t.name, 'expires_at', app.iso(e.expires_at))
      from expiring e
      join app.teams t on t.id = e.team_id
      join app.team_members m on m.team_id = t.id and m.status = 'active' and m.role = 'admin'
      join app.accounts a on a.id = m.account_id
     where a.email is not null and not exists (
         select from app.lifecycle_mails l
          where l.account_id = a.id and l.kind = 'certificate_expiring' and l.occasion = e.occasion);
end
$$;
revoke execute on function app.due_about_certificates() from public, anon, authenticated;

-- api.owe_lifecycle_mails: the sweep --------------------------------------------------------------------------
-- Settles at most `p_limit` of what is due. Returns {"settled", "owed"}: fewer settled than the limit means that none
-- was left. All sweeps go through the rows in one order, so two of them cannot deadlock.
create function api.owe_lifecycle_mails(p_limit int)
returns jsonb
language sql
security definer
set search_path = ''
set lock_timeout = '5s'
as $$
  with due as materialized (
    select distinct on (d.account_id, d.kind, d.occasion) d.*
      from (
        select * from app.due_to_newcomers()
        union all select * from app.due_about_credits()
        union all select * from app.due_about_teams()
        union all select * from app.due_about_subscriptions()
        union all select * from app.due_about_certificates()
      ) d
     order by d.account_id, d.kind, d.occasion
     limit p_limit
  ),
  told as (
    insert into app.lifecycle_mails (account_id, kind, occasion)
    select d.account_id, d.kind, d.occasion from due d order by d.account_id, d.kind, d.occasion
    on conflict do nothing
    returning account_id, kind, occasion
  ),
  owed as (
    select app.queue_mail(d.kind, d.recipient, d.subject_id, d.facts) as id
      from told join due d using (account_id, kind, occasion)
     where d.recipient is not null
  )
  select jsonb_build_object(
    'settled', (select count(*) from due), 'owed', (select count(id) from owed))
$$;
revoke execute on function api.owe_lifecycle_mails(int) from public, anon, authenticated;
grant execute on function api.owe_lifecycle_mails(int) to service_role;
