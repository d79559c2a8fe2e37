-- Keys that may do one thing. A key with scopes may do what they say and nothing else; an ordinary key has none.
--
-- So far there is one: `vault:check_in`, for a button or a phone of the owner's. An agent's ordinary key outlives its
-- owner and can therefore not say that the owner is alive; this one says nothing else.

alter table app.api_keys
  add column scopes text[]
    check (scopes is null or (cardinality(scopes) > 0 and scopes <@ array['vault:check_in'] and team_id is null));

-- app.find_principal: as before; a key with scopes acts as nobody here ----------------------------------------
create or replace function app.find_principal(
  p_credential_kind text, p_credential_hash bytea, out principal app.principal, out refusal text
)
language plpgsql
stable
set search_path = ''
as $$
declare
  v_key app.api_keys;
  v_id uuid;
  v_payer uuid;
  v_role text;
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
    when v_key.scopes is not null then 'forbidden_scope'
  end;
  if v_key.team_id is null then
    principal := row(v_key.account_id, v_key.account_id, v_key.account_id, true, 'admin', v_key.id)::app.principal;
    return;
  end if;
  select t.account_id, m.role into v_payer, v_role
    from app.teams t
    left join app.team_members m
      on m.team_id = t.id and m.account_id = v_key.account_id and m.status = 'active'
   where t.id = v_key.team_id;
  if refusal is null and v_role is null then
    refusal := 'api_key_revoked';
  end if;
  principal := row(v_key.team_id, v_payer, v_key.account_id, true, v_role, v_key.id)::app.principal;
end
$$;
revoke execute on function app.find_principal(text, bytea) from public, anon, authenticated;

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
