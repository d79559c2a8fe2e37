-- Sub-keys: keys for a team's agents, each bound to a member. Spec 2.8, 4.5, 5 and design section 4.
--
-- What a sub-key stores belongs to the team and is charged to the account that owns it. Its log is the member's log
-- in that team. It acts in the role that the member has when it is used, and dies with the membership.

alter table app.api_keys add column team_id uuid references app.teams (id) on delete cascade;
create index api_keys_by_team on app.api_keys (team_id, account_id);

-- app.find_principal: as before, and now for sub-keys too -----------------------------------------------------
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

-- api.create_subkey: a key for one of the team's agents -------------------------------------------------------
-- For the caller, or by an admin for another member; the member must hold a grant, or their agent could read
-- nothing. The same hash again returns the same key.
create function api.create_subkey(
  p_subject text, p_email text, p_team_id uuid, p_name text, p_bound_member_id text, p_key_hash bytea,
  p_masked_key text
)
returns jsonb
language plpgsql
security definer
set search_path = ''
set lock_timeout = '5s'
as $$
declare
  v_actor app.team_actor := app.enter_team(p_team_id, p_subject, p_email, 'write', true);
  v_bound text := coalesce(p_bound_member_id, p_subject);
  v_account_id uuid;
  v_key app.api_keys;
begin
  if v_bound <> p_subject and v_actor.role <> 'admin' then
    perform app.refuse('forbidden_role', jsonb_build_object('role', v_actor.role, 'required_role', 'admin'));
  end if;
  select g.account_id into v_account_id
    from app.team_grants g join app.accounts a on a.id = g.account_id
   where g.team_id = p_team_id and a.subject = v_bound;
  if not found then
    perform app.refuse('no_grant', jsonb_build_object('member_id', v_bound));
  end if;
  insert into app.api_keys (account_id, team_id, name, key_hash, masked_key)
  values (v_account_id, p_team_id, p_name, p_key_hash, p_masked_key)
  on conflict (key_hash) do nothing
  returning * into v_key;
  if found then
    perform app.append_audit(p_team_id, p_subject, 'subkey.create', 'subkey', v_key.id::text,
      jsonb_build_object('name', p_name, 'bound_member_id', v_bound));
    perform app.emit_event((v_actor.team).account_id, 'api_key.created', jsonb_build_object(
      'api_key_id', v_key.id, 'team_id', p_team_id));
  else
    select * into v_key from app.api_keys where key_hash = p_key_hash and team_id = p_team_id;
  end if;
  return jsonb_build_object(
    'id', v_key.id, 'name', v_key.name, 'team_id', p_team_id, 'bound_member_id', v_bound,
    'masked_key', v_key.masked_key, 'created_at', app.iso(v_key.created_at));
end
$$;
revoke execute on function api.create_subkey(text, text, uuid, text, text, bytea, text)
  from public, anon, authenticated;
grant execute on function api.create_subkey(text, text, uuid, text, text, bytea, text) to service_role;

-- app.end_key: a key stops; a sub-key's end is in its team's ledger -------------------------------------------
create function app.end_key(p_key app.api_keys, p_actor text)
returns jsonb
language plpgsql
set search_path = ''
as $$
declare
  v_key app.api_keys;
begin
  update app.api_keys set revoked_at = coalesce(revoked_at, now()) where id = p_key.id returning * into v_key;
  if p_key.revoked_at is null and p_key.team_id is not null then
    perform app.append_audit(p_key.team_id, p_actor, 'subkey.revoke', 'subkey', p_key.id::text, '{}');
  end if;
  if p_key.revoked_at is null then
    perform app.emit_event(
      coalesce((select account_id from app.teams where id = p_key.team_id), p_key.account_id), 'api_key.revoked',
      jsonb_strip_nulls(jsonb_build_object('api_key_id', p_key.id, 'team_id', p_key.team_id)));
  end if;
  return jsonb_build_object(
    'id', v_key.id, 'revoked_at', app.iso(v_key.revoked_at), 'message', 'api_key_revoked');
end
$$;
revoke execute on function app.end_key(app.api_keys, text) from public, anon, authenticated;

-- api.revoke_subkey: by the member it is bound to, or by an admin ---------------------------------------------
create function api.revoke_subkey(p_subject text, p_email text, p_team_id uuid, p_key_id uuid)
returns jsonb
language plpgsql
security definer
set search_path = ''
set lock_timeout = '5s'
as $$
declare
  v_actor app.team_actor := app.enter_team(p_team_id, p_subject, p_email, 'read', true);
  v_key app.api_keys;
begin
  select * into v_key from app.api_keys where id = p_key_id and team_id = p_team_id for no key update;
  if not found then
    perform app.refuse('api_key_not_found');
  elsif v_key.account_id <> v_actor.account_id and v_actor.role <> 'admin' then
    perform app.refuse('forbidden_role', jsonb_build_object('role', v_actor.role, 'required_role', 'admin'));
  end if;
  return app.end_key(v_key, p_subject);
end
$$;
revoke execute on function api.revoke_subkey(text, text, uuid, uuid) from public, anon, authenticated;
grant execute on function api.revoke_subkey(text, text, uuid, uuid) to service_role;

-- api.revoke_api_key: as before; a sub-key goes through its team ----------------------------------------------
create or replace function api.revoke_api_key(p_subject text, p_email text, p_key_id uuid)
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
  -- The team's row is locked first, as everywhere.
  perform 1 from app.teams t join app.api_keys k on k.team_id = t.id
    where k.id = p_key_id and k.account_id = v_account_id for no key update of t;
  select * into v_key from app.api_keys
   where id = p_key_id and account_id = v_account_id for no key update;
  if not found then
    perform app.refuse('api_key_not_found');
  end if;
  return app.end_key(v_key, p_subject);
end
$$;
revoke execute on function api.revoke_api_key(text, text, uuid) from public, anon, authenticated;
grant execute on function api.revoke_api_key(text, text, uuid) to service_role;
