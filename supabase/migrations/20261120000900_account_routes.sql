-- What a person does with a session: keys for agents, and the salt that their passphrase is stretched with.
--
-- Every function here is called with the verified subject of a session, and makes the subject's account at first
-- sight. Another person's key is exactly like one that does not exist. Spec 2.7, 4.4 and 4.8 (kdf-salt).

-- app.show_api_key: a key as its owner sees it (spec 2.7) ----------------------------------------------------
create function app.show_api_key(p_key app.api_keys)
returns jsonb
language sql
stable
set search_path = ''
as $$
  select jsonb_build_object(
    'id', p_key.id,
    'label', p_key.name,
    'prefix', 'sov_live_',
    'masked_key', p_key.masked_key,
    'created_at', app.iso(p_key.created_at),
    'revoked_at', app.iso(p_key.revoked_at),
    'last_used_at', app.iso(p_key.last_used_at),
    'state', case when p_key.revoked_at is null then 'active' else 'revoked' end
  )
$$;
revoke execute on function app.show_api_key(app.api_keys) from public, anon, authenticated;

-- api.create_api_key: a new key of the caller -----------------------------------------------------------------
-- The secret is made by the service and never seen here. The same hash again returns the same key.
create function api.create_api_key(
  p_subject text, p_email text, p_name text, p_key_hash bytea, p_masked_key text
)
returns jsonb
language plpgsql
security definer
set search_path = ''
as $$
declare
  v_account_id uuid := app.open_user(p_subject, p_email);
  v_key app.api_keys;
begin
  insert into app.api_keys (account_id, name, key_hash, masked_key)
  values (v_account_id, p_name, p_key_hash, p_masked_key)
  on conflict (key_hash) do nothing
  returning * into v_key;
  if found then
    perform app.emit_event(v_account_id, 'api_key.created', jsonb_build_object('api_key_id', v_key.id));
  else
    select * into v_key from app.api_keys where key_hash = p_key_hash and account_id = v_account_id;
  end if;
  return app.show_api_key(v_key);
end
$$;
revoke execute on function api.create_api_key(text, text, text, bytea, text) from public, anon, authenticated;
grant execute on function api.create_api_key(text, text, text, bytea, text) to service_role;

-- api.list_api_keys: all keys of the caller, newest first ----------------------------------------------------
create function api.list_api_keys(p_subject text, p_email text)
returns jsonb
language plpgsql
security definer
set search_path = ''
as $$
declare
  v_account_id uuid := app.open_user(p_subject, p_email);
begin
  return coalesce((
    select jsonb_agg(app.show_api_key(k) - 'masked_key' order by k.created_at desc, k.id)
      from app.api_keys k
     where k.account_id = v_account_id
  ), '[]');
end
$$;
revoke execute on function api.list_api_keys(text, text) from public, anon, authenticated;
grant execute on function api.list_api_keys(text, text) to service_role;

-- api.revoke_api_key: a key stops at its very next request ---------------------------------------------------
-- For good. Revoking again answers the first time again.
create function api.revoke_api_key(p_subject text, p_email text, p_key_id uuid)
returns jsonb
language plpgsql
security definer
set search_path = ''
set lock_timeout = '5s'
as $$
declare
  v_account_id uuid := app.open_user(p_subject, p_email);
  v_key app.api_keys;
begin
  update app.api_keys set revoked_at = coalesce(revoked_at, now())
   where id = p_key_id and account_id = v_account_id
  returning * into v_key;
  if not found then
    perform app.refuse('api_key_not_found');
  end if;
  return jsonb_build_object(
    'id', v_key.id, 'revoked_at', app.iso(v_key.revoked_at), 'message', 'api_key_revoked');
end
$$;
revoke execute on function api.revoke_api_key(text, text, uuid) from public, anon, authenticated;
grant execute on function api.revoke_api_key(text, text, uuid) to service_role;

-- The salt ---------------------------------------------------------------------------------------------------
-- Minted once for each user and never changed: another salt would be another key.
create table app.kdf_salts (
  account_id uuid primary key references app.accounts (id) on delete cascade,
  salt bytea not null check (octet_length(salt) = 32),
  created_at timestamptz not null default now()
);
alter table app.kdf_salts enable row level security;

-- api.read_kdf_salt: the caller's salt, `p_fresh_salt` if there is none yet ----------------------------------
create function api.read_kdf_salt(p_subject text, p_email text, p_fresh_salt bytea)
returns jsonb
language plpgsql
security definer
set search_path = ''
as $$
declare
  v_account_id uuid := app.open_user(p_subject, p_email);
  v_salt bytea;
begin
  select salt into v_salt from app.kdf_salts where account_id = v_account_id;
  if not found then
    insert into app.kdf_salts (account_id, salt) values (v_account_id, p_fresh_salt) on conflict do nothing;
    select salt into v_salt from app.kdf_salts where account_id = v_account_id;
  end if;
  return jsonb_build_object('kdf_salt', encode(v_salt, 'base64'));
end
$$;
revoke execute on function api.read_kdf_salt(text, text, bytea) from public, anon, authenticated;
grant execute on function api.read_kdf_salt(text, text, bytea) to service_role;
