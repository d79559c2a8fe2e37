-- API keys, and how a credential becomes the party that acts.
--
-- A `sov_live_` key is known only by its SHA-256. A `sov_proj_` token needs no registration: its account is made
-- by its first write. Each operation's own function calls one of the two resolvers below with the hash, so that a
-- request costs one round trip and a revoked key stops at its very next request. Spec section 5, rules 1, 5 and 6.

create table app.api_keys (
  id uuid primary key default gen_random_uuid(),
  -- Null when the account was removed: the key then answers `owner_not_found` instead of coming back to life.
  account_id uuid references app.accounts (id) on delete set null,
  name text not null check (char_length(name) between 1 and 128),
  key_hash bytea not null unique check (octet_length(key_hash) = 32),
  masked_key text not null,
  created_at timestamptz not null default now(),
  revoked_at timestamptz,
  last_used_at timestamptz
);
create index api_keys_by_account on app.api_keys (account_id, created_at);
alter table app.api_keys enable row level security;

-- app.find_principal: who is this? (reads only, refuses nothing) ---------------------------------------------
-- `refusal` is the code to refuse with, or null. A project token that has not written yet has no `owner_id`: it
-- sees nothing.
create function app.find_principal(
  p_credential_kind text, p_credential_hash bytea, out principal app.principal, out refusal text
)
language plpgsql
stable
set search_path = ''
as $$
declare
  v_key app.api_keys;
  v_id uuid;
begin
  if p_credential_kind = 'project' then
    select id into v_id from app.accounts where token_hash = p_credential_hash;
    principal := row(v_id, v_id, v_id, false, 'admin', null)::app.principal;
    return;
  end if;
  select * into v_key from app.api_keys where key_hash = p_credential_hash;
  refusal := case
    when v_key.id is null then 'invalid_api_key'
    when v_key.revoked_at is not null then 'api_key_revoked'
    when v_key.account_id is null then 'owner_not_found'
  end;
  principal := row(v_key.account_id, v_key.account_id, v_key.account_id, true, 'admin', v_key.id)::app.principal;
end
$$;
revoke execute on function app.find_principal(text, bytea) from public, anon, authenticated;

-- app.identify: who is this, for a read -----------------------------------------------------------------------
create function app.identify(p_credential_kind text, p_credential_hash bytea)
returns app.principal
language plpgsql
stable
set search_path = ''
as $$
declare
  v_found record;
begin
  select * into v_found from app.find_principal(p_credential_kind, p_credential_hash);
  if v_found.refusal is not null then
    perform app.refuse(v_found.refusal);
  end if;
  return v_found.principal;
end
$$;
revoke execute on function app.identify(text, bytea) from public, anon, authenticated;

-- app.touch_key: remember when a key was last used -----------------------------------------------------------
-- To the minute, so that a busy key is not written at every request; and never waiting for another who does it.
create function app.touch_key(p_key_id uuid)
returns void
language plpgsql
set search_path = ''
as $$
begin
  update app.api_keys set last_used_at = date_trunc('minute', now())
   where id in (
     select id from app.api_keys
      where id = p_key_id and last_used_at is distinct from date_trunc('minute', now())
        for no key update skip locked
   );
end
$$;
revoke execute on function app.touch_key(uuid) from public, anon, authenticated;

-- app.admit: who is this, for a write ------------------------------------------------------------------------
-- Makes the account of a project token that writes for the first time, and notes the use of a key. Somebody who may
-- only read is refused.
create function app.admit(p_credential_kind text, p_credential_hash bytea)
returns app.principal
language plpgsql
set search_path = ''
as $$
declare
  v_principal app.principal := app.identify(p_credential_kind, p_credential_hash);
begin
  if v_principal.role = 'read' then
    perform app.refuse('forbidden_role');
  end if;
  if v_principal.owner_id is null then
    v_principal.account_id := app.open_project(p_credential_hash);
    v_principal.owner_id := v_principal.account_id;
    v_principal.member_id := v_principal.account_id;
  end if;
  if v_principal.key_id is not null then
    perform app.touch_key(v_principal.key_id);
  end if;
  return v_principal;
end
$$;
revoke execute on function app.admit(text, bytea) from public, anon, authenticated;

-- api.check_credential: refuse a credential that is not good -------------------------------------------------
-- Asked before a body's faults are named, so that a stranger learns only that they are one.
create function api.check_credential(p_credential_kind text, p_credential_hash bytea)
returns jsonb
language plpgsql
stable
security definer
set search_path = ''
as $$
begin
  perform app.identify(p_credential_kind, p_credential_hash);
  return jsonb_build_object('ok', true);
end
$$;
revoke execute on function api.check_credential(text, bytea) from public, anon, authenticated;
grant execute on function api.check_credential(text, bytea) to service_role;
