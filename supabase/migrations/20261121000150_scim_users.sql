-- SCIM users: the operations of RFC 7644 on the users of one team. Spec 4.8.
--
-- `p_user` is {"user_name", "external_id", "email", "active", "attributes"} as text. `p_version` is the
-- version that the change was made for, null for any. `p_change_id` is the service's to choose: the same one
-- again changes nothing more and answers the same.

-- app.show_scim_user: a user for the service to spell -------------------------------------------------------
create function app.show_scim_user(p_user app.scim_users)
returns jsonb
language sql
stable
set search_path = ''
as $$
  select jsonb_build_object(
    'id', p_user.id,
    'user_name', p_user.user_name,
    'external_id', p_user.external_id,
    'active', p_user.active,
    'attributes', p_user.attributes,
    'groups', (
      select coalesce(jsonb_agg(jsonb_build_object('value', g.id, 'display', g.display_name)
                                order by g.display_name, g.id), '[]')
        from app.scim_group_members m join app.scim_groups g on g.id = m.group_id
       where m.team_id = p_user.team_id and m.user_id = p_user.id),
    'version', p_user.version,
    'created_at', app.iso(p_user.created_at),
    'updated_at', app.iso(p_user.updated_at)
  )
$$;
revoke execute on function app.show_scim_user(app.scim_users) from public, anon, authenticated;

-- app.own_scim_user: the team's user of that id -------------------------------------------------------------
create function app.own_scim_user(p_team_id uuid, p_user_id uuid, p_version int)
returns app.scim_users
language plpgsql
stable
set search_path = ''
as $$
declare
  v_user app.scim_users;
begin
  select * into v_user from app.scim_users where id = p_user_id and team_id = p_team_id;
  if not found then
    perform app.refuse('scim_resource_not_found');
  elsif v_user.version <> p_version then
    perform app.refuse('precondition_failed');
  end if;
  return v_user;
end
$$;
revoke execute on function app.own_scim_user(uuid, uuid, int) from public, anon, authenticated;

-- app.require_unique_user: no other user of the team has this name, nor, both being active, this address ----
create function app.require_unique_user(p_user app.scim_users)
returns void
language plpgsql
stable
set search_path = ''
as $$
begin
  if exists (
    select from app.scim_users
     where team_id = p_user.team_id and lower(user_name) = lower(p_user.user_name) and id <> p_user.id
  ) then
    perform app.refuse('scim_uniqueness', '{"attribute": "userName"}');
  elsif p_user.active and exists (
    select from app.scim_users
     where team_id = p_user.team_id and id <> p_user.id and active
       and (lower(email) = lower(p_user.email) or account_id = p_user.account_id)
  ) then
    perform app.refuse('scim_uniqueness', '{"attribute": "emails"}');
  end if;
end
$$;
revoke execute on function app.require_unique_user(app.scim_users) from public, anon, authenticated;

-- api.find_scim_users: a page of those that a filter lets through -------------------------------------------
create function api.find_scim_users(p_token_hash bytea, p_filter text, p_offset int, p_limit int)
returns jsonb
language plpgsql
security definer
set search_path = ''
as $$
declare
  v_actor app.scim_actor := app.enter_scim(p_token_hash, false);
  v_filter jsonb := p_filter::jsonb;
  v_where text := app.scim_where(v_filter);
  v_total bigint;
  v_users jsonb;
begin
  execute 'select count(*) from app.scim_users r where r.team_id = $2 and ' || v_where
    into v_total using v_filter, (v_actor.team).id;
  execute 'select coalesce(jsonb_agg(app.show_scim_user(u) order by u.created_at, u.id), ''[]'') from (
             select r.* from app.scim_users r where r.team_id = $2 and ' || v_where || '
              order by r.created_at, r.id offset $3 limit $4) u'
    into v_users using v_filter, (v_actor.team).id, p_offset, p_limit;
  return jsonb_build_object('total', v_total, 'resources', v_users);
end
$$;
revoke execute on function api.find_scim_users(bytea, text, int, int) from public, anon, authenticated;
grant execute on function api.find_scim_users(bytea, text, int, int) to service_role;

-- api.read_scim_user ----------------------------------------------------------------------------------------
create function api.read_scim_user(p_token_hash bytea, p_user_id uuid)
returns jsonb
language plpgsql
security definer
set search_path = ''
as $$
declare
  v_actor app.scim_actor := app.enter_scim(p_token_hash, false);
begin
  return app.show_scim_user(app.own_scim_user((v_actor.team).id, p_user_id, null));
end
$$;
revoke execute on function api.read_scim_user(bytea, uuid) from public, anon, authenticated;
grant execute on function api.read_scim_user(bytea, uuid) to service_role;

-- app.read_scim_change: a user as it is to be ---------------------------------------------------------------
create function app.read_scim_change(p_user app.scim_users, p_change text, p_change_id uuid)
returns app.scim_users
language plpgsql
immutable
set search_path = ''
as $$
declare
  v_change jsonb := p_change::jsonb;
begin
  p_user.user_name := v_change ->> 'user_name';
  p_user.external_id := v_change ->> 'external_id';
  p_user.email := v_change ->> 'email';
  p_user.active := v_change -> 'active';
  p_user.attributes := v_change -> 'attributes';
  p_user.change_id := p_change_id;
  return p_user;
end
$$;
revoke execute on function app.read_scim_change(app.scim_users, text, uuid) from public, anon, authenticated;

-- api.create_scim_user: provision somebody ------------------------------------------------------------------
-- Returns the user, or what `app.find_seat` answers.
create function api.create_scim_user(p_token_hash bytea, p_user_id uuid, p_user text, p_seats int)
returns jsonb
language plpgsql
security definer
set search_path = ''
set lock_timeout = '5s'
as $$
declare
  v_actor app.scim_actor := app.enter_scim(p_token_hash, true);
  v_team app.teams := v_actor.team;
  v_user app.scim_users;
  v_answer jsonb;
begin
  select * into v_user from app.scim_users where id = p_user_id and team_id = v_team.id;
  if found then
    return app.show_scim_user(v_user);
  end if;
  v_user.id := p_user_id;
  v_user.team_id := v_team.id;
  v_user.role := 'read';
  v_user := app.read_scim_change(v_user, p_user, p_user_id);
  perform app.require_unique_user(v_user);
  if v_user.active then
    v_answer := app.find_provisioned_seat(v_team, null, v_user.email, p_seats);
    if v_answer is not null then
      return v_answer;
    end if;
  end if;
  v_user.role := app.provisioned_role(v_user);
  insert into app.scim_users (id, team_id, user_name, external_id, email, active, attributes, role, change_id)
  values (v_user.id, v_team.id, v_user.user_name, v_user.external_id, v_user.email, v_user.active,
    v_user.attributes, v_user.role, v_user.change_id)
  returning * into v_user;
  if v_user.active then
    perform app.start_provisioned(v_team, v_user, v_actor.name);
  end if;
  return app.show_scim_user(v_user);
end
$$;
revoke execute on function api.create_scim_user(bytea, uuid, text, int) from public, anon, authenticated;
grant execute on function api.create_scim_user(bytea, uuid, text, int) to service_role;

-- api.replace_scim_user: make a user what is given ----------------------------------------------------------
-- Becoming active takes a seat, ceasing to be active ends everything. Returns the user, or what
-- `app.find_seat` answers.
create function api.replace_scim_user(
  p_token_hash bytea, p_user_id uuid, p_version int, p_user text, p_change_id uuid, p_seats int
)
returns jsonb
language plpgsql
security definer
set search_path = ''
set lock_timeout = '5s'
as $$
declare
  v_actor app.scim_actor := app.enter_scim(p_token_hash, true);
  v_team app.teams := v_actor.team;
  v_before app.scim_users := app.own_scim_user(v_team.id, p_user_id, null);
  v_user app.scim_users;
  v_answer jsonb;
begin
  if v_before.change_id = p_change_id then
    return app.show_scim_user(v_before);
  end if;
  v_before := app.own_scim_user(v_team.id, p_user_id, p_version);
  v_user := app.read_scim_change(v_before, p_user, p_change_id);
  if (v_user.user_name, v_user.external_id, v_user.email, v_user.active, v_user.attributes)
    is not distinct from
    (v_before.user_name, v_before.external_id, v_before.email, v_before.active, v_before.attributes) then
    return app.show_scim_user(v_before);
  end if;
  perform app.require_unique_user(v_user);
  if v_user.active and not v_before.active then
    v_answer := app.find_provisioned_seat(v_team, v_user.account_id, v_user.email, p_seats);
    if v_answer is not null then
      return v_answer;
    end if;
  end if;
  update app.scim_users
     set user_name = v_user.user_name, external_id = v_user.external_id, email = v_user.email,
         active = v_user.active, attributes = v_user.attributes, change_id = p_change_id,
         version = version + 1, updated_at = now()
   where id = p_user_id
  returning * into v_user;
  if v_user.active and not v_before.active then
    perform app.start_provisioned(v_team, v_user, v_actor.name);
  elsif v_before.active and not v_user.active then
    perform app.stop_provisioned(v_team, v_before, v_actor.name, 'scim_deactivated');
  end if;
  return app.show_scim_user(v_user);
end
$$;
revoke execute on function api.replace_scim_user(bytea, uuid, int, text, uuid, int)
  from public, anon, authenticated;
grant execute on function api.replace_scim_user(bytea, uuid, int, text, uuid, int) to service_role;

-- api.delete_scim_user: as ceasing to be active, and the user is gone ---------------------------------------
create function api.delete_scim_user(p_token_hash bytea, p_user_id uuid, p_version int, p_change_id uuid)
returns jsonb
language plpgsql
security definer
set search_path = ''
set lock_timeout = '5s'
as $$
declare
  v_actor app.scim_actor := app.enter_scim(p_token_hash, true);
  v_team app.teams := v_actor.team;
  v_user app.scim_users;
begin
  if app.is_scim_deletion_done(v_team.id, 'scim_user.delete', p_change_id) then
    return jsonb_build_object('ok', true);
  end if;
  v_user := app.own_scim_user(v_team.id, p_user_id, p_version);
  if v_user.active then
    perform app.stop_provisioned(v_team, v_user, v_actor.name, 'scim_deleted');
  end if;
  delete from app.scim_users where id = p_user_id;
  perform app.append_audit(v_team.id, v_actor.name, 'scim_user.delete', 'scim_user', p_user_id::text,
    jsonb_build_object('change_id', p_change_id));
  return jsonb_build_object('ok', true);
end
$$;
revoke execute on function api.delete_scim_user(bytea, uuid, int, uuid) from public, anon, authenticated;
grant execute on function api.delete_scim_user(bytea, uuid, int, uuid) to service_role;

-- app.is_scim_deletion_done: the ledger remembers a deletion when its answer was lost -----------------------
create function app.is_scim_deletion_done(p_team_id uuid, p_action text, p_change_id uuid)
returns boolean
language sql
stable
set search_path = ''
as $$
  select exists (
    select from app.audit_entries
     where team_id = p_team_id and action = p_action and metadata ->> 'change_id' = p_change_id::text)
$$;
revoke execute on function app.is_scim_deletion_done(uuid, text, uuid) from public, anon, authenticated;
