-- Keys that may do one thing. A key with scopes may do what they say and nothing else; an ordinary key has none.
--
-- So far there is one: `vault:check_in`, for a button or a phone of the owner's. An agent's ordinary key outlives its
-- owner and can therefore not say that the owner is alive; this one says nothing else. Wherever agents act, a key with
-- scopes is nobody: `app.find_principals`.

alter table app.api_keys
  add column scopes text[]
    check (scopes is null or (cardinality(scopes) > 0 and scopes <@ array['vault:check_in'] and team_id is null));

-- app.show_api_key: as before; scopes are shown where there are any -------------------------------------------
create or replace function app.show_api_key(p_key app.api_keys)
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
  ) || case when p_key.scopes is null then '{}' else jsonb_build_object('scopes', p_key.scopes) end
$$;
revoke execute on function app.show_api_key(app.api_keys) from public, anon, authenticated;

-- api.create_api_key: as before, perhaps with scopes ------------------------------------------------------------
drop function api.create_api_key(text, text, text, bytea, text);

create function api.create_api_key(
  p_subject text, p_email text, p_name text, p_key_hash bytea, p_masked_key text, p_scopes text[] default null
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
  insert into app.api_keys (account_id, name, key_hash, masked_key, scopes)
  values (v_account_id, p_name, p_key_hash, p_masked_key, p_scopes)
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
revoke execute on function api.create_api_key(text, text, text, bytea, text, text[]) from public, anon, authenticated;
grant execute on function api.create_api_key(text, text, text, bytea, text, text[]) to service_role;
