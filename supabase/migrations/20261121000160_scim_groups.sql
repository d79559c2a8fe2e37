-- SCIM groups: the operations of RFC 7644 on the groups of one team, and the roles that follow. Spec 4.8.
--
-- Members are users of the same team. They are changed by naming who comes and who goes, so that one member
-- of a large group costs one row. `p_change_id` and `p_version` are as for users.

-- app.show_scim_group: a group for the service to spell; its members only when asked for --------------------
create function app.show_scim_group(p_group app.scim_groups, p_members boolean)
returns jsonb
language sql
stable
set search_path = ''
as $$
  select jsonb_build_object(
    'id', p_group.id,
    'display_name', p_group.display_name,
    'external_id', p_group.external_id,
    'version', p_group.version,
    'created_at', app.iso(p_group.created_at),
    'updated_at', app.iso(p_group.updated_at)
  ) || case when p_members then jsonb_build_object('members', (
    select coalesce(jsonb_agg(m.user_id order by m.user_id), '[]')
      from app.scim_group_members m
     where m.team_id = p_group.team_id and m.group_id = p_group.id))
  else '{}' end
$$;
revoke execute on function app.show_scim_group(app.scim_groups, boolean) from public, anon, authenticated;

-- app.own_scim_group: the team's group of that id -----------------------------------------------------------
create function app.own_scim_group(p_team_id uuid, p_group_id uuid, p_version int)
returns app.scim_groups
language plpgsql
stable
set search_path = ''
as $$
declare
  v_group app.scim_groups;
begin
  select * into v_group from app.scim_groups where id = p_group_id and team_id = p_team_id;
  if not found then
    perform app.refuse('scim_resource_not_found');
  elsif v_group.version <> p_version then
    perform app.refuse('precondition_failed');
  end if;
  return v_group;
end
$$;
revoke execute on function app.own_scim_group(uuid, uuid, int) from public, anon, authenticated;

-- app.change_group_members: who comes and who goes; returns who did -----------------------------------------
-- `p_only`: nobody stays but those who are added.
create function app.change_group_members(
  p_team_id uuid, p_group_id uuid, p_only boolean, p_added uuid[], p_removed uuid[]
)
returns uuid[]
language plpgsql
set search_path = ''
as $$
declare
  v_unknown text;
  v_gone uuid[];
  v_come uuid[];
begin
  select min(a.id::text) into v_unknown
    from unnest(p_added) as a (id)
   where not exists (select from app.scim_users u where u.id = a.id and u.team_id = p_team_id);
  if v_unknown is not null then
    perform app.refuse('invalid_scim_value',
      jsonb_build_object('attribute', 'members', 'unknown', v_unknown));
  end if;
  with gone as (
    delete from app.scim_group_members
     where team_id = p_team_id and group_id = p_group_id
       and (user_id = any (p_removed) or p_only and user_id <> all (p_added))
    returning user_id
  )
  select array_agg(user_id) into v_gone from gone;
  with come as (
    insert into app.scim_group_members (team_id, group_id, user_id)
    select p_team_id, p_group_id, id from unnest(p_added) as a (id)
    on conflict do nothing
    returning user_id
  )
  select array_agg(user_id) into v_come from come;
  return coalesce(v_gone, '{}') || coalesce(v_come, '{}');
end
$$;
revoke execute on function app.change_group_members(uuid, uuid, boolean, uuid[], uuid[])
  from public, anon, authenticated;

-- app.require_unique_group: names of groups map to roles, so each is given once -----------------------------
create function app.require_unique_group(p_team_id uuid, p_group_id uuid, p_display_name text)
returns void
language plpgsql
stable
set search_path = ''
as $$
begin
  if exists (
    select from app.scim_groups
     where team_id = p_team_id and lower(display_name) = lower(p_display_name) and id <> p_group_id
  ) then
    perform app.refuse('scim_uniqueness', '{"attribute": "displayName"}');
  end if;
end
$$;
revoke execute on function app.require_unique_group(uuid, uuid, text) from public, anon, authenticated;

-- api.find_scim_groups: a page of those that a filter lets through ------------------------------------------
create function api.find_scim_groups(
  p_token_hash bytea, p_filter text, p_offset int, p_limit int, p_members boolean
)
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
  v_groups jsonb;
begin
  execute 'select count(*) from app.scim_groups r where r.team_id = $2 and ' || v_where
    into v_total using v_filter, (v_actor.team).id;
  execute 'select coalesce(jsonb_agg(app.show_scim_group(g, $5) order by g.created_at, g.id), ''[]'') from (
             select r.* from app.scim_groups r where r.team_id = $2 and ' || v_where || '
              order by r.created_at, r.id offset $3 limit $4) g'
    into v_groups using v_filter, (v_actor.team).id, p_offset, p_limit, p_members;
  return jsonb_build_object('total', v_total, 'resources', v_groups);
end
$$;
revoke execute on function api.find_scim_groups(bytea, text, int, int, boolean)
  from public, anon, authenticated;
grant execute on function api.find_scim_groups(bytea, text, int, int, boolean) to service_role;

-- api.read_scim_group ---------------------------------------------------------------------------------------
create function api.read_scim_group(p_token_hash bytea, p_group_id uuid, p_members boolean)
returns jsonb
language plpgsql
security definer
set search_path = ''
as $$
declare
  v_actor app.scim_actor := app.enter_scim(p_token_hash, false);
begin
  return app.show_scim_group(app.own_scim_group((v_actor.team).id, p_group_id, null), p_members);
end
$$;
revoke execute on function api.read_scim_group(bytea, uuid, boolean) from public, anon, authenticated;
grant execute on function api.read_scim_group(bytea, uuid, boolean) to service_role;

-- api.create_scim_group -------------------------------------------------------------------------------------
create function api.create_scim_group(
  p_token_hash bytea, p_group_id uuid, p_display_name text, p_external_id text, p_member_ids text[]
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
  v_group app.scim_groups;
begin
  select * into v_group from app.scim_groups where id = p_group_id and team_id = v_team.id;
  if not found then
    perform app.require_unique_group(v_team.id, p_group_id, p_display_name);
    insert into app.scim_groups (id, team_id, display_name, external_id, change_id)
    values (p_group_id, v_team.id, p_display_name, p_external_id, p_group_id)
    returning * into v_group;
    perform app.append_audit(v_team.id, v_actor.name, 'scim_group.create', 'scim_group', p_group_id::text,
      jsonb_build_object('name', p_display_name));
    perform app.sync_roles(v_team.id, v_actor.name,
      app.change_group_members(v_team.id, p_group_id, true, p_member_ids::uuid[], '{}'));
  end if;
  return app.show_scim_group(v_group, true);
end
$$;
revoke execute on function api.create_scim_group(bytea, uuid, text, text, text[])
  from public, anon, authenticated;
grant execute on function api.create_scim_group(bytea, uuid, text, text, text[]) to service_role;

-- api.change_scim_group: its name, its external id, its members ---------------------------------------------
-- A null name stays; `p_set_external` says whether the external id is to be set. A change of name may change
-- what the group's members may do.
create function api.change_scim_group(
  p_token_hash bytea, p_group_id uuid, p_version int, p_display_name text, p_set_external boolean,
  p_external_id text, p_only boolean, p_added text[], p_removed text[], p_change_id uuid, p_members boolean
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
  v_before app.scim_groups := app.own_scim_group(v_team.id, p_group_id, null);
  v_group app.scim_groups;
  v_touched uuid[];
begin
  if v_before.change_id = p_change_id then
    return app.show_scim_group(v_before, p_members);
  end if;
  v_before := app.own_scim_group(v_team.id, p_group_id, p_version);
  v_group := v_before;
  v_group.display_name := coalesce(p_display_name, v_group.display_name);
  v_group.external_id := case when p_set_external then p_external_id else v_group.external_id end;
  perform app.require_unique_group(v_team.id, p_group_id, v_group.display_name);
  v_touched := app.change_group_members(v_team.id, p_group_id, p_only, p_added::uuid[], p_removed::uuid[]);
  if v_group = v_before and v_touched = '{}' then
    return app.show_scim_group(v_before, p_members);
  end if;
  update app.scim_groups
     set display_name = v_group.display_name, external_id = v_group.external_id, change_id = p_change_id,
         version = version + 1, updated_at = now()
   where id = p_group_id
  returning * into v_group;
  if v_group.display_name <> v_before.display_name then
    perform app.append_audit(v_team.id, v_actor.name, 'scim_group.rename', 'scim_group', p_group_id::text,
      jsonb_build_object('name', v_group.display_name));
    v_touched := v_touched || array(
      select user_id from app.scim_group_members where team_id = v_team.id and group_id = p_group_id);
  end if;
  perform app.sync_roles(v_team.id, v_actor.name, v_touched);
  return app.show_scim_group(v_group, p_members);
end
$$;
revoke execute on function api.change_scim_group(
  bytea, uuid, int, text, boolean, text, boolean, text[], text[], uuid, boolean
) from public, anon, authenticated;
grant execute on function api.change_scim_group(
  bytea, uuid, int, text, boolean, text, boolean, text[], text[], uuid, boolean
) to service_role;

-- api.delete_scim_group: its members have the role that is left to them -------------------------------------
create function api.delete_scim_group(p_token_hash bytea, p_group_id uuid, p_version int, p_change_id uuid)
returns jsonb
language plpgsql
security definer
set search_path = ''
set lock_timeout = '5s'
as $$
declare
  v_actor app.scim_actor := app.enter_scim(p_token_hash, true);
  v_team app.teams := v_actor.team;
  v_touched uuid[];
begin
  if app.is_scim_deletion_done(v_team.id, 'scim_group.delete', p_change_id) then
    return jsonb_build_object('ok', true);
  end if;
  perform app.own_scim_group(v_team.id, p_group_id, p_version);
  v_touched := app.change_group_members(v_team.id, p_group_id, true, '{}', '{}');
  delete from app.scim_groups where id = p_group_id;
  perform app.append_audit(v_team.id, v_actor.name, 'scim_group.delete', 'scim_group', p_group_id::text,
    jsonb_build_object('change_id', p_change_id));
  perform app.sync_roles(v_team.id, v_actor.name, v_touched);
  return jsonb_build_object('ok', true);
end
$$;
revoke execute on function api.delete_scim_group(bytea, uuid, int, uuid) from public, anon, authenticated;
grant execute on function api.delete_scim_group(bytea, uuid, int, uuid) to service_role;
