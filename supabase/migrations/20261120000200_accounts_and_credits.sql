-- Who owns what, and what they may spend.
--
-- Everything that is stored belongs to an owner: a user, a project token or (later) a team. Users and project
-- tokens are also accounts, which carry a balance; what each owner uses is counted by billing cycle. Money is integer
-- milli-cents. A balance can never be negative, and every change of it is a row of an append-only ledger whose sum
-- is the balance; both are written by the same statement, so neither can exist without the other.

-- Tables -----------------------------------------------------------------------------------------------------
create table app.owners (
  id uuid primary key default gen_random_uuid(),
  kind text not null check (kind in ('user', 'project', 'team')),
  created_at timestamptz not null default now()
);

-- A project token is kept only as its SHA-256; the id is random, so it cannot be turned back into the token.
-- The row is updated by every paid or metered write, hence the room left in each page (no index is touched).
create table app.accounts (
  id uuid primary key references app.owners (id) on delete cascade,
  subject text unique check (subject <> ''),
  email text,
  token_hash bytea unique check (octet_length(token_hash) = 32),
  credits_milli bigint not null default 0 check (credits_milli >= 0),
  stored_bytes bigint not null default 0 check (stored_bytes >= 0),
  -- Start of the subscription's running period; null without one.
  period_start timestamptz,
  created_at timestamptz not null default now(),
  check (num_nonnulls(subject, token_hash) = 1)
) with (fillfactor = 50);

-- What an owner did in a billing cycle. Spec 2.6 and 2.6a.
create table app.usage_cycles (
  owner_id uuid not null references app.owners (id) on delete cascade,
  cycle_start timestamptz not null,
  sync_ops bigint not null default 0,
  store_ops bigint not null default 0,
  recall_requests bigint not null default 0,
  bytes_stored bigint not null default 0,
  primary key (owner_id, cycle_start)
) with (fillfactor = 50);

-- `bytes` is what a charge was for, so that each amount can be checked against the price.
create table app.credit_ledger (
  id bigint generated always as identity primary key,
  account_id uuid not null references app.accounts (id) on delete cascade,
  kind text not null check (kind in ('grant', 'replication', 'snapshot', 'snapshot_refund')),
  amount_milli bigint not null check (
    case when kind in ('replication', 'snapshot') then amount_milli < 0 else amount_milli > 0 end
  ),
  bytes bigint check (bytes > 0),
  reference uuid,
  actor text,
  note text,
  created_at timestamptz not null default now(),
  check (kind = 'replication' or reference is not null)
);
create index credit_ledger_by_account on app.credit_ledger (account_id, id);
-- A grant, a hold and a refund each happen once.
create unique index credit_ledger_once on app.credit_ledger (reference, kind) where reference is not null;

-- Who acts: `owner_id` scopes every row that they may see, `account_id` pays, `member_id` is whose log it is, `role`
-- what they may do.
create type app.principal as (
  owner_id uuid, account_id uuid, member_id uuid, metered boolean, role text, key_id uuid
);

alter table app.owners enable row level security;
alter table app.accounts enable row level security;
alter table app.usage_cycles enable row level security;
alter table app.credit_ledger enable row level security;

-- app.forbid_change: for tables that only grow ---------------------------------------------------------------
create function app.forbid_change()
returns trigger
language plpgsql
set search_path = ''
as $$
begin
  -- An account's removal takes its ledger along (a cascade runs inside another trigger); nothing else may.
  if tg_op = 'DELETE' and pg_trigger_depth() > 1 then
    return old;
  end if;
  raise exception '%.% only grows: % is refused', tg_table_schema, tg_table_name, tg_op;
end
$$;
revoke execute on function app.forbid_change() from public, anon, authenticated;

create trigger credit_ledger_only_grows before update or delete on app.credit_ledger
  for each row execute function app.forbid_change();
create trigger credit_ledger_is_not_truncated before truncate on app.credit_ledger
  for each statement execute function app.forbid_change();

-- app.price_milli: what bytes cost ---------------------------------------------------------------------------
-- 0.045 milli-cents a byte, rounded up once for a request. Spec 4.2.
create function app.price_milli(p_bytes bigint)
returns bigint
language sql
immutable
parallel safe
set search_path = ''
as $$
  select (p_bytes * 45 + 999) / 1000
$$;
revoke execute on function app.price_milli(bigint) from public, anon, authenticated;

-- app.open_user: the account of a subject, made at first sight -----------------------------------------------
-- The e-mail address is what the identity provider said last.
create function app.open_user(p_subject text, p_email text default null)
returns uuid
language plpgsql
set search_path = ''
as $$
declare
  v_id uuid;
  v_email text;
begin
  select id, email into v_id, v_email from app.accounts where subject = p_subject;
  if found then
    if p_email is distinct from v_email and p_email is not null then
      update app.accounts set email = p_email where id = v_id;
    end if;
    return v_id;
  end if;
  insert into app.owners (kind) values ('user') returning id into v_id;
  insert into app.accounts (id, subject, email) values (v_id, p_subject, p_email)
    on conflict (subject) do nothing;
  if not found then -- somebody else made it meanwhile
    delete from app.owners where id = v_id;
    select id into v_id from app.accounts where subject = p_subject;
  end if;
  return v_id;
end
$$;
revoke execute on function app.open_user(text, text) from public, anon, authenticated;

-- app.open_project: the account of a project token, made at its first write ----------------------------------
create function app.open_project(p_token_hash bytea)
returns uuid
language plpgsql
set search_path = ''
as $$
declare
  v_id uuid;
begin
  select id into v_id from app.accounts where token_hash = p_token_hash;
  if found then
    return v_id;
  end if;
  insert into app.owners (kind) values ('project') returning id into v_id;
  insert into app.accounts (id, token_hash) values (v_id, p_token_hash) on conflict (token_hash) do nothing;
  if not found then
    delete from app.owners where id = v_id;
    select id into v_id from app.accounts where token_hash = p_token_hash;
  end if;
  return v_id;
end
$$;
revoke execute on function app.open_project(bytea) from public, anon, authenticated;

-- app.take_bytes: charge an account for bytes it is about to keep --------------------------------------------
-- Locks the account's row, so it comes last in every transaction. A metered account pays; one that is not may
-- keep `p_quota_bytes` in all. Returns the price.
create function app.take_bytes(
  p_principal app.principal, p_bytes bigint, p_quota_bytes bigint, p_kind text, p_reference uuid
)
returns bigint
language plpgsql
set search_path = ''
as $$
declare
  v_cost bigint := case when p_principal.metered then app.price_milli(p_bytes) else 0 end;
  v_account app.accounts;
  v_left bigint;
begin
  update app.accounts
     set credits_milli = credits_milli - v_cost, stored_bytes = stored_bytes + p_bytes
   where id = p_principal.account_id
     and credits_milli >= v_cost
     and (p_principal.metered or stored_bytes + p_bytes <= p_quota_bytes)
  returning credits_milli into v_left;
  if not found then
    select * into v_account from app.accounts where id = p_principal.account_id;
    if p_principal.metered then
      perform app.refuse('insufficient_credits', jsonb_build_object(
        'required_milli', v_cost, 'credits_milli', v_account.credits_milli));
    end if;
    perform app.refuse('trial_quota_exceeded', jsonb_build_object(
      'quota_bytes', p_quota_bytes, 'stored_bytes', v_account.stored_bytes, 'attempted_bytes', p_bytes));
  end if;
  if v_cost > 0 then
    insert into app.credit_ledger (account_id, kind, amount_milli, bytes, reference)
    values (p_principal.account_id, p_kind, -v_cost, p_bytes, p_reference);
    if v_left < 100000 and v_left + v_cost >= 100000 then
      perform app.emit_event(p_principal.account_id, 'credits.low',
        jsonb_build_object('credits_milli', v_left, 'threshold_milli', 100000));
    end if;
  end if;
  return v_cost;
end
$$;
revoke execute on function app.take_bytes(app.principal, bigint, bigint, text, uuid)
  from public, anon, authenticated;

-- app.give_back_bytes: undo a charge for bytes that are not kept after all -----------------------------------
create function app.give_back_bytes(p_account_id uuid, p_bytes bigint, p_cost_milli bigint, p_reference uuid)
returns void
language plpgsql
set search_path = ''
as $$
begin
  update app.accounts
     set credits_milli = credits_milli + p_cost_milli, stored_bytes = stored_bytes - p_bytes
   where id = p_account_id;
  if p_cost_milli > 0 then
    insert into app.credit_ledger (account_id, kind, amount_milli, bytes, reference)
    values (p_account_id, 'snapshot_refund', p_cost_milli, p_bytes, p_reference);
  end if;
end
$$;
revoke execute on function app.give_back_bytes(uuid, bigint, bigint, uuid) from public, anon, authenticated;

-- app.cycle_start: when the running billing cycle began ------------------------------------------------------
-- The start of the subscription's period, or of the calendar month in UTC without one.
create function app.cycle_start(p_period_start timestamptz)
returns timestamptz
language plpgsql
stable
parallel safe
set search_path = ''
as $$
begin
  return coalesce(p_period_start, date_trunc('month', now(), 'UTC'));
end
$$;
revoke execute on function app.cycle_start(timestamptz) from public, anon, authenticated;

-- app.count_usage: add to what an owner did in the running cycle ---------------------------------------------
-- In the transaction that does it. `p_account_id` pays, so its cycle is the one that runs.
create function app.count_usage(
  p_owner_id uuid, p_account_id uuid, p_sync_ops int, p_store_ops int, p_recall_requests int, p_bytes bigint
)
returns void
language plpgsql
set search_path = ''
as $$
declare
  v_cycle timestamptz;
begin
  select app.cycle_start(period_start) into v_cycle from app.accounts where id = p_account_id;
  update app.usage_cycles
     set sync_ops = sync_ops + p_sync_ops,
         store_ops = store_ops + p_store_ops,
         recall_requests = recall_requests + p_recall_requests,
         bytes_stored = bytes_stored + p_bytes
   where owner_id = p_owner_id and cycle_start = v_cycle;
  if not found then
    insert into app.usage_cycles as u (owner_id, cycle_start, sync_ops, store_ops, recall_requests, bytes_stored)
    values (p_owner_id, v_cycle, p_sync_ops, p_store_ops, p_recall_requests, p_bytes)
    on conflict (owner_id, cycle_start) do update
      set sync_ops = u.sync_ops + excluded.sync_ops,
          store_ops = u.store_ops + excluded.store_ops,
          recall_requests = u.recall_requests + excluded.recall_requests,
          bytes_stored = u.bytes_stored + excluded.bytes_stored;
  end if;
end
$$;
revoke execute on function app.count_usage(uuid, uuid, int, int, int, bigint) from public, anon, authenticated;

-- api.grant_credits: an operator tops an account up ----------------------------------------------------------
-- Makes the account when the subject is new. The same reference grants once, so a repeated call is harmless.
create function api.grant_credits(
  p_subject text, p_amount_milli bigint, p_actor text, p_note text, p_reference uuid
)
returns jsonb
language plpgsql
security definer
set search_path = ''
as $$
declare
  v_account_id uuid;
  v_credits_milli bigint;
begin
  if p_amount_milli is null or p_amount_milli not between 1 and 1000000000000 then
    perform app.refuse('invalid_field:amount_milli');
  end if;
  v_account_id := app.open_user(p_subject);
  insert into app.credit_ledger (account_id, kind, amount_milli, reference, actor, note)
  values (v_account_id, 'grant', p_amount_milli, p_reference, p_actor, p_note)
  on conflict (reference, kind) where reference is not null do nothing;
  if found then
    update app.accounts set credits_milli = credits_milli + p_amount_milli where id = v_account_id;
  end if;
  select credits_milli into v_credits_milli from app.accounts where id = v_account_id;
  return jsonb_build_object('account_id', v_account_id, 'credits_milli', v_credits_milli);
end
$$;
revoke execute on function api.grant_credits(text, bigint, text, text, uuid) from public, anon, authenticated;
grant execute on function api.grant_credits(text, bigint, text, text, uuid) to service_role;

-- api.read_balance: what an account may still spend -----------------------------------------------------------
create function api.read_balance(p_subject text)
returns jsonb
language sql
stable
security definer
set search_path = ''
as $$
  select jsonb_build_object('credits_milli', coalesce(
    (select credits_milli from app.accounts where subject = p_subject), 0))
$$;
revoke execute on function api.read_balance(text) from public, anon, authenticated;
grant execute on function api.read_balance(text) to service_role;
