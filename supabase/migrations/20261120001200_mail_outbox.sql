-- Mail that is owed to people, kept until a provider has taken it.
--
-- A change and the mail about it are written in one transaction, so a change that is undone sends nothing and one
-- that stands is always told. Workers claim rows under a lease and try again, less and less often, for about three
-- days. A row never holds a secret: invitation tokens are made anew for each try, in memory.

-- Tables -----------------------------------------------------------------------------------------------------
create table app.mail_outbox (
  id uuid primary key default gen_random_uuid(),
  kind text not null check (kind ~ '^[a-z]+(_[a-z]+)*$'),
  recipient text not null,
  -- The row that the mail is about, such as an invitation; of which table, the kind says.
  subject_id uuid,
  -- Names and numbers for the template.
  facts jsonb not null check (jsonb_typeof(facts) = 'object' and not facts ?| array['token', 'secret']),
  created_at timestamptz not null default now(),
  attempts int not null default 0 check (attempts >= 0),
  next_attempt_at timestamptz not null default now(),
  lease_expires_at timestamptz,
  -- A code: its alphabet has no room for an address.
  last_error text check (last_error ~ '^[a-z0-9_]{1,64}$'),
  sent_at timestamptz,
  given_up_at timestamptz,
  check (num_nonnulls(sent_at, given_up_at) <= 1)
);
create index mail_outbox_due on app.mail_outbox (next_attempt_at)
  where sent_at is null and given_up_at is null;
create index mail_outbox_given_up on app.mail_outbox (given_up_at) where given_up_at is not null;

alter table app.mail_outbox enable row level security;

-- app.mail_attempts_max: how often a mail is tried -----------------------------------------------------------
-- With the waits of `app.mail_pause` that is about three days.
create function app.mail_attempts_max()
returns int
language sql
immutable
parallel safe
set search_path = ''
as $$
  select 20
$$;
revoke execute on function app.mail_attempts_max() from public, anon, authenticated;

-- app.mail_pause: how long to wait after a failed attempt ----------------------------------------------------
-- 1 minute · 2^attempts, at most 6 hours, a quarter more or less: what failed together does not return together.
create function app.mail_pause(p_attempts int)
returns interval
language sql
volatile
set search_path = ''
as $$
  select least(interval '6 hours', interval '1 minute' * 2 ^ least(p_attempts, 16)) * (0.75 + random() / 2)
$$;
revoke execute on function app.mail_pause(int) from public, anon, authenticated;

-- app.queue_mail: owe somebody a mail ------------------------------------------------------------------------
-- For functions that change something, inside their transaction. Never refuses: what cannot be an address is kept
-- as given up, because the change itself is right. Returns the row's id.
create function app.queue_mail(p_kind text, p_recipient text, p_subject_id uuid, p_facts jsonb)
returns uuid
language plpgsql
set search_path = ''
as $$
declare
  v_id uuid;
  v_is_address boolean := octet_length(p_recipient) <= 320
    and p_recipient ~ '^[^[:cntrl:][:space:]<>,;:"@]+@[^[:cntrl:][:space:]<>,;:"@]+$';
begin
  insert into app.mail_outbox (kind, recipient, subject_id, facts, last_error, given_up_at)
  values (
    p_kind, coalesce(p_recipient, ''), p_subject_id, coalesce(p_facts, '{}'),
    case when v_is_address then null else 'bad_recipient' end,
    case when v_is_address then null else now() end
  )
  returning id into v_id;
  return v_id;
end
$$;
revoke execute on function app.queue_mail(text, text, uuid, jsonb) from public, anon, authenticated;

-- api.claim_mail: take mails that are due --------------------------------------------------------------------
-- Passes over what another worker holds. Whoever claims has `p_lease_seconds` to call api.finish_mail; after that
-- the mail is due again, with the next number of attempt. A repeated call claims other mails; those of the call
-- that was lost come back when their lease is over.
create function api.claim_mail(p_limit int, p_lease_seconds int)
returns table (id uuid, kind text, recipient text, subject_id uuid, facts jsonb, attempt int)
language sql
security definer
set search_path = ''
as $$
  -- A mail whose worker dies each time must come to an end as well.
  update app.mail_outbox m
     set given_up_at = now(), last_error = 'never_finished', lease_expires_at = null
   where m.id in (
     select o.id
       from app.mail_outbox o
      where o.sent_at is null and o.given_up_at is null and o.next_attempt_at <= now()
        and o.attempts >= app.mail_attempts_max() and o.lease_expires_at <= now()
        for no key update skip locked
   );

  with due as (
    select m.id
      from app.mail_outbox m
     where m.sent_at is null and m.given_up_at is null and m.next_attempt_at <= now()
       and (m.lease_expires_at is null or m.lease_expires_at <= now())
     order by m.next_attempt_at
     limit p_limit
       for no key update skip locked
  )
  update app.mail_outbox m
     set attempts = m.attempts + 1,
         lease_expires_at = now() + pg_catalog.make_interval(secs => p_lease_seconds)
    from due
   where m.id = due.id
  returning m.id, m.kind, m.recipient, m.subject_id, m.facts, m.attempts
$$;
revoke execute on function api.claim_mail(int, int) from public, anon, authenticated;
grant execute on function api.claim_mail(int, int) to service_role;

-- api.finish_mail: what became of an attempt -----------------------------------------------------------------
-- Without an error the mail is sent, whoever says so and however late. With one it waits for its next attempt, or
-- is given up when the error is permanent or it was the last; only the attempt that holds the lease may say that.
-- Returns {"state": "sent" | "waiting" | "given_up"}, null for an unknown mail.
create function api.finish_mail(
  p_mail_id uuid, p_attempt int, p_error text default null, p_permanent boolean default false
)
returns jsonb
language plpgsql
security definer
set search_path = ''
as $$
declare
  v_mail app.mail_outbox;
begin
  if p_error is null then
    update app.mail_outbox
       set sent_at = now(), given_up_at = null, lease_expires_at = null, last_error = null
     where id = p_mail_id and sent_at is null;
  else
    update app.mail_outbox
       set last_error = p_error,
           lease_expires_at = null,
           next_attempt_at = now() + app.mail_pause(attempts),
           given_up_at = case when p_permanent or attempts >= app.mail_attempts_max() then now() end
     where id = p_mail_id and attempts = p_attempt and lease_expires_at is not null
       and sent_at is null and given_up_at is null;
  end if;
  select * into v_mail from app.mail_outbox where id = p_mail_id;
  if not found then
    return null;
  end if;
  return jsonb_build_object('state', case
    when v_mail.sent_at is not null then 'sent'
    when v_mail.given_up_at is not null then 'given_up'
    else 'waiting' end);
end
$$;
revoke execute on function api.finish_mail(uuid, int, text, boolean) from public, anon, authenticated;
grant execute on function api.finish_mail(uuid, int, text, boolean) to service_role;
