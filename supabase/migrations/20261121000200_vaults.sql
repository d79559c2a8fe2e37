-- Vaults: what somebody leaves to others, and who may say that it is time.
--
-- A vault holds assets that its owner's client encrypted, keys and shares wrapped for people, and the rules by which
-- it is released. The server decides only when somebody may fetch wrapped material; it can open none of it. The
-- machine is `active → releasing → released` (docs/vault.md). Time is `p_now` in every function, from the caller's
-- clock, so that one place decides what time it is; nothing here asks the database's clock. Spec 2.12, 4.9 and 9.
-- Lock order: the owner's account, then the vault's row. Whatever changes a vault locks its row first.

-- Tables -----------------------------------------------------------------------------------------------------
create table app.vaults (
  id uuid primary key,
  account_id uuid not null references app.accounts (id) on delete cascade,
  name text not null check (char_length(name) between 1 and 128),
  sss_preset text not null check (sss_preset in ('standard', 'enhanced')),
  state text not null default 'active' check (state in ('active', 'releasing', 'released')),
  -- Raised by every transition; each names the one that it starts from.
  version bigint not null default 0,
  -- Of the keys that assets and shares are made with; raised when a released vault is armed again.
  key_epoch int not null default 0 check (key_epoch >= 0),
  -- Trigger `dead_man_switch`
  switch_enabled boolean not null default false,
  switch_since timestamptz,
  switch_interval_days int not null default 30 check (switch_interval_days between 1 and 365),
  switch_grace_days int not null default 7 check (switch_grace_days between 1 and 90),
  switch_window_hours int not null default 168 check (switch_window_hours between 24 and 2160),
  -- Trigger `manual`
  manual_window_hours int not null default 24 check (manual_window_hours between 1 and 2160),
  -- Trigger `guardian_claim`; a quorum of one would let a single guardian decide.
  claim_enabled boolean not null default false,
  claim_quorum int not null check (claim_quorum between 2 and 9),
  claim_window_hours int not null default 336 check (claim_window_hours between 24 and 2160),
  -- When the owner last proved to be alive, and what they were reminded of since.
  last_check_in_at timestamptz not null,
  reminders int not null default 0 check (reminders between 0 and 3),
  reminded_at timestamptz,
  -- Of the release that runs or has happened. `release_at` is fixed when it begins.
  trigger text check (trigger in ('dead_man_switch', 'manual', 'guardian_claim')),
  claim_id uuid,
  releasing_since timestamptz,
  release_at timestamptz,
  blocked_since timestamptz,
  released_at timestamptz,
  picked_up_at timestamptz,
  -- The last explicit act, so that a repeated call finds that it was done.
  last_request_id uuid,
  -- When time alone may change something next; null: never.
  look_at timestamptz,
  audit_seq bigint not null default -1,
  audit_hash bytea not null default decode(repeat('00', 32), 'hex') check (octet_length(audit_hash) = 32),
  created_at timestamptz not null,
  check ((state = 'active') = (release_at is null)),
  check ((state = 'active') = (trigger is null)),
  check ((state = 'released') = (released_at is not null)),
  check (picked_up_at is null or state = 'released'),
  check (not switch_enabled or switch_since is not null)
) with (fillfactor = 70);
create index vaults_by_account on app.vaults (account_id, created_at);
create index vaults_to_look_at on app.vaults (look_at) where look_at is not null;

-- Heirs and guardians. Who left, was removed or never came keeps no share.
create table app.vault_people (
  id uuid primary key,
  vault_id uuid not null references app.vaults (id) on delete cascade,
  role text not null check (role in ('heir', 'guardian')),
  name text not null check (char_length(name) between 1 and 128),
  email text not null,
  wallet_address text,
  public_key text,
  wrapped_share text,
  status text not null default 'pending'
    check (status in ('pending', 'accepted', 'confirmed', 'declined', 'removed', 'expired')),
  expires_at timestamptz not null,
  accepted_at timestamptz,
  confirmed_at timestamptz,
  ended_at timestamptz,
  -- The request in which they declined: when its answer is lost the service asks again, and they have no token by then.
  declined_in uuid,
  picked_up_at timestamptz,
  -- How long this guardian must wait after a claim of theirs that came to nothing, and until when.
  cooldown_days int not null default 7 check (cooldown_days between 1 and 365),
  cooldown_until timestamptz,
  created_at timestamptz not null,
  check ((status in ('declined', 'removed', 'expired')) = (ended_at is not null)),
  check (ended_at is null or wrapped_share is null),
  check (status <> 'confirmed' or confirmed_at is not null)
);
create index vault_people_by_vault on app.vault_people (vault_id, created_at);
create unique index vault_people_declined on app.vault_people (declined_in) where declined_in is not null;
create unique index vault_people_once on app.vault_people (vault_id, role, lower(email)) where ended_at is null;

-- A person's tokens, each as its hash; each mail that carries one makes one.
create table app.vault_tokens (
  token_hash bytea primary key check (octet_length(token_hash) = 32),
  person_id uuid not null references app.vault_people (id) on delete cascade,
  created_at timestamptz not null default now()
);
create index vault_tokens_by_person on app.vault_tokens (person_id);

create table app.vault_assets (
  id uuid primary key,
  vault_id uuid not null references app.vaults (id) on delete cascade,
  name text not null check (char_length(name) between 1 and 128),
  ciphertext bytea not null check (octet_length(ciphertext) between 1 and 262144),
  key_epoch int not null,
  created_at timestamptz not null
);
alter table app.vault_assets alter column ciphertext set storage external;
create index vault_assets_by_vault on app.vault_assets (vault_id, created_at);

-- An asset's key, wrapped for an heir.
create table app.vault_asset_keys (
  asset_id uuid not null references app.vault_assets (id) on delete cascade,
  person_id uuid not null references app.vault_people (id) on delete cascade,
  wrapped_key text not null,
  primary key (asset_id, person_id)
);
create index vault_asset_keys_by_person on app.vault_asset_keys (person_id);

-- Changes that make a vault weaker wait, and can be canceled. Null settings stay as they are.
create table app.vault_changes (
  id uuid primary key,
  vault_id uuid not null references app.vaults (id) on delete cascade,
  kind text not null check (kind in ('remove_heir', 'remove_guardian', 'configure')),
  person_id uuid references app.vault_people (id) on delete cascade,
  trigger text check (trigger in ('dead_man_switch', 'manual', 'guardian_claim')),
  enabled boolean,
  interval_days int,
  grace_days int,
  window_hours int,
  quorum int,
  -- Whether who asked proved to be the living owner; if not, it also waits for the next proof.
  proven boolean not null,
  state text not null default 'pending' check (state in ('pending', 'done', 'canceled')),
  requested_at timestamptz not null,
  executes_at timestamptz not null,
  check ((kind = 'configure') = (trigger is not null)),
  check ((kind = 'configure') = (person_id is null))
);
create index vault_changes_by_vault on app.vault_changes (vault_id, executes_at);
create index vault_changes_by_person on app.vault_changes (person_id);
create unique index vault_changes_once on app.vault_changes (vault_id, kind, person_id, trigger)
  nulls not distinct where state = 'pending';

create table app.vault_claims (
  id uuid primary key,
  vault_id uuid not null references app.vaults (id) on delete cascade,
  person_id uuid not null references app.vault_people (id) on delete cascade,
  reason text,
  -- As it was when the claim was made.
  quorum int not null check (quorum >= 2),
  state text not null default 'gathering_votes'
    check (state in ('gathering_votes', 'approved', 'contested', 'expired', 'withdrawn')),
  created_at timestamptz not null,
  expires_at timestamptz not null,
  ended_at timestamptz
);
create index vault_claims_by_vault on app.vault_claims (vault_id, created_at);
create index vault_claims_by_person on app.vault_claims (person_id);
create unique index vault_claims_one_open on app.vault_claims (vault_id) where state = 'gathering_votes';

create table app.vault_votes (
  claim_id uuid not null references app.vault_claims (id) on delete cascade,
  person_id uuid not null references app.vault_people (id) on delete cascade,
  vote text not null check (vote in ('concur', 'reject')),
  voted_at timestamptz not null,
  primary key (claim_id, person_id)
);
create index vault_votes_by_person on app.vault_votes (person_id);

-- The vault's ledger: the same chain and encoding as a team's (docs/audit.md), with the vault's id in the team's place.
create table app.vault_audit_entries (
  vault_id uuid not null references app.vaults (id) on delete cascade,
  seq bigint not null check (seq >= 0),
  id uuid not null unique,
  actor text not null,
  action text not null,
  resource_type text not null,
  resource_id text not null,
  metadata jsonb not null check (app.is_audit_metadata(metadata)),
  prev_hash bytea not null check (octet_length(prev_hash) = 32),
  entry_hash bytea not null check (octet_length(entry_hash) = 32),
  created_at timestamptz not null check (created_at = date_trunc('milliseconds', created_at)),
  primary key (vault_id, seq),
  unique (vault_id, prev_hash)
);

alter table app.vaults enable row level security;
alter table app.vault_people enable row level security;
alter table app.vault_tokens enable row level security;
alter table app.vault_assets enable row level security;
alter table app.vault_asset_keys enable row level security;
alter table app.vault_changes enable row level security;
alter table app.vault_claims enable row level security;
alter table app.vault_votes enable row level security;
alter table app.vault_audit_entries enable row level security;

create trigger vault_audit_entries_only_grow before update or delete on app.vault_audit_entries
  for each row execute function app.forbid_change();
create trigger vault_audit_entries_are_not_truncated before truncate on app.vault_audit_entries
  for each statement execute function app.forbid_change();

-- app.vault_threshold, app.vault_shares: the k and the n of a preset --------------------------------------------
create function app.vault_threshold(p_sss_preset text)
returns int
language sql
immutable
parallel safe
set search_path = ''
as $$
  select case p_sss_preset when 'standard' then 2 else 3 end
$$;
revoke execute on function app.vault_threshold(text) from public, anon, authenticated;

create function app.vault_shares(p_sss_preset text)
returns int
language sql
immutable
parallel safe
set search_path = ''
as $$
  select case p_sss_preset when 'standard' then 3 else 5 end
$$;
revoke execute on function app.vault_shares(text) from public, anon, authenticated;

-- app.as_audit_entry: an entry as the functions of the audit ledger take it -------------------------------------
create function app.as_audit_entry(p_entry app.vault_audit_entries)
returns app.audit_entries
language sql
immutable
parallel safe
set search_path = ''
as $$
  select row(
    p_entry.vault_id, p_entry.seq, p_entry.id, p_entry.actor, p_entry.action, p_entry.resource_type,
    p_entry.resource_id, p_entry.metadata, p_entry.prev_hash, p_entry.entry_hash, p_entry.created_at
  )::app.audit_entries
$$;
revoke execute on function app.as_audit_entry(app.vault_audit_entries) from public, anon, authenticated;

-- app.record_vault: one entry in the ledger, and one event for webhooks -----------------------------------------
-- Whoever calls holds the vault's lock. Names and addresses have no place in `p_metadata`. A null `p_event` tells
-- nobody.
create function app.record_vault(
  p_vault_id uuid, p_actor text, p_action text, p_resource_type text, p_resource_id uuid, p_metadata jsonb,
  p_event text, p_now timestamptz
)
returns void
language plpgsql
set search_path = ''
as $$
declare
  v_entry app.vault_audit_entries;
  v_account_id uuid;
begin
  select v.id, v.audit_seq + 1, v.audit_hash, v.account_id
    into v_entry.vault_id, v_entry.seq, v_entry.prev_hash, v_account_id
    from app.vaults v where v.id = p_vault_id;
  v_entry.id := gen_random_uuid();
  v_entry.actor := p_actor;
  v_entry.action := p_action;
  v_entry.resource_type := p_resource_type;
  v_entry.resource_id := p_resource_id::text;
  v_entry.metadata := jsonb_strip_nulls(p_metadata);
  -- Never before the entry before it, whatever the clock did.
  v_entry.created_at := greatest(
    date_trunc('milliseconds', p_now),
    (select e.created_at from app.vault_audit_entries e where e.vault_id = p_vault_id and e.seq = v_entry.seq - 1));
  v_entry.entry_hash := app.hash_audit_entry(app.as_audit_entry(v_entry));
  insert into app.vault_audit_entries select v_entry.*;
  update app.vaults set audit_seq = v_entry.seq, audit_hash = v_entry.entry_hash where id = p_vault_id;
  if p_event is not null then
    perform app.emit_event(v_account_id, p_event,
      jsonb_build_object('vault_id', p_vault_id, p_resource_type || '_id', p_resource_id) || v_entry.metadata);
  end if;
end
$$;
revoke execute on function app.record_vault(uuid, text, text, text, uuid, jsonb, text, timestamptz)
  from public, anon, authenticated;

-- app.tell_vault: owe mail to those concerned -------------------------------------------------------------------
-- `p_whom` is of `owner`, `heirs` and `guardians`; of the last two only those who are confirmed.
create function app.tell_vault(p_vault app.vaults, p_kind text, p_whom text[], p_facts jsonb)
returns void
language plpgsql
set search_path = ''
as $$
declare
  v_facts jsonb := jsonb_build_object('vault_name', p_vault.name, 'vault_id', p_vault.id) || p_facts;
begin
  if 'owner' = any (p_whom) then
    perform app.queue_mail(p_kind, a.email, p_vault.id, v_facts)
      from app.accounts a where a.id = p_vault.account_id and a.email is not null;
  end if;
  perform app.queue_mail(p_kind, p.email, p.id, v_facts)
    from app.vault_people p
   where p.vault_id = p_vault.id and p.status = 'confirmed' and p.role || 's' = any (p_whom);
end
$$;
revoke execute on function app.tell_vault(app.vaults, text, text[], jsonb) from public, anon, authenticated;
