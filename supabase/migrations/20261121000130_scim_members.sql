-- What the directory does to the team: who joins, in which role, and who leaves. Spec 4.8; 4.5 for members.
--
-- Everything here runs under the team's lock, in the transaction of the SCIM request or of the session that
-- meets its user. Joining takes a seat like an invitation; leaving takes everything at once: membership,
-- grant, sub-keys.

-- app.directory_role: the highest role that the user's groups map to; null without one ----------------------
create function app.directory_role(p_team_id uuid, p_user_id uuid)
returns text
language sql
stable
set search_path = ''
as $$
  select r.value
    from app.scim_group_members m
    join app.scim_groups g on g.id = m.group_id
    join app.sso_configs c on c.team_id = p_team_id
    cross join jsonb_each_text(c.group_roles) r
   where m.team_id = p_team_id and m.user_id = p_user_id and lower(r.key) = lower(g.display_name)
   order by app.rank_role(r.value) desc
   limit 1
$$;
revoke execute on function app.directory_role(uuid, uuid) from public, anon, authenticated;

-- app.provisioned_role: that of the groups, else what the member had before, else the default role ----------
create function app.provisioned_role(p_user app.scim_users)
returns text
language sql
stable
set search_path = ''
as $$
  select coalesce(
    app.directory_role(p_user.team_id, p_user.id), p_user.base_role,
    (select default_role from app.sso_configs where team_id = p_user.team_id), 'read')
$$;
revoke execute on function app.provisioned_role(app.scim_users) from public, anon, authenticated;

-- app.find_known_member: the account of an active member with this e-mail address ---------------------------
-- Somebody who is in the team already and whom the directory now manages. Null when there is nobody, or when
-- several have it.
create function app.find_known_member(p_team_id uuid, p_email text)
returns uuid
language sql
stable
set search_path = ''
as $$
  select min(a.id::text)::uuid
    from app.team_members m join app.accounts a on a.id = m.account_id
   where m.team_id = p_team_id and m.status = 'active' and lower(a.email) = lower(p_email)
     and not exists (
       select from app.scim_users u
        where u.team_id = p_team_id and u.account_id = m.account_id and u.active)
  having count(*) = 1
$$;
revoke execute on function app.find_known_member(uuid, text) from public, anon, authenticated;

-- app.set_member_role: a member's role, unless it would leave the team without an admin ---------------------
create function app.set_member_role(p_team_id uuid, p_account_id uuid, p_role text)
returns void
language plpgsql
set search_path = ''
as $$
begin
  if p_role <> 'admin' and app.count_admins(p_team_id, p_account_id) = 0 then
    perform app.refuse('last_admin');
  end if;
  update app.team_members set role = p_role where team_id = p_team_id and account_id = p_account_id;
end
$$;
revoke execute on function app.set_member_role(uuid, uuid, text) from public, anon, authenticated;

-- app.join_provisioned: the user's person is a member from now on -------------------------------------------
-- The user's row says who. A member already keeps their role, unless a group of theirs maps to one.
create function app.join_provisioned(p_team app.teams, p_user app.scim_users, p_actor text)
returns void
language plpgsql
set search_path = ''
as $$
declare
  v_member app.team_members;
  v_subject text := (select subject from app.accounts where id = p_user.account_id);
  v_role text;
begin
  select * into v_member from app.team_members where team_id = p_team.id and account_id = p_user.account_id;
  if v_member.status = 'active' then
    update app.scim_users set base_role = coalesce(base_role, v_member.role) where id = p_user.id
    returning * into p_user;
  end if;
  v_role := app.provisioned_role(p_user);
  if v_member.status is distinct from 'active' then
    insert into app.team_members as m (team_id, account_id, role)
    values (p_team.id, p_user.account_id, v_role)
    on conflict (team_id, account_id) do update
      set role = excluded.role, status = 'active', created_at = now();
  elsif v_member.role <> v_role then
    perform app.set_member_role(p_team.id, p_user.account_id, v_role);
  end if;
  update app.scim_users set role = v_role where id = p_user.id;
  perform app.append_audit(p_team.id, p_actor, 'member.link', 'member', v_subject,
    jsonb_build_object('role', v_role, 'scim_user_id', p_user.id));
  if v_member.status is distinct from 'active' then
    perform app.emit_event(p_team.account_id, 'member.added', jsonb_build_object(
      'team_id', p_team.id, 'member_id', v_subject, 'role', v_role, 'scim_user_id', p_user.id));
  end if;
end
$$;
revoke execute on function app.join_provisioned(app.teams, app.scim_users, text)
  from public, anon, authenticated;

-- app.find_provisioned_seat: may this user become active? ---------------------------------------------------
-- Writes nothing. Null when there is room, else what `app.find_seat` answers. A member already has a seat.
create function app.find_provisioned_seat(p_team app.teams, p_account_id uuid, p_email text, p_seats int)
returns jsonb
language plpgsql
set search_path = ''
as $$
begin
  perform app.require_plan(p_team, 'enterprise');
  if exists (
    select from app.team_members
     where team_id = p_team.id and status = 'active'
       and account_id = coalesce(p_account_id, app.find_known_member(p_team.id, p_email))
  ) then
    return null;
  end if;
  return app.find_seat(p_team, p_email, p_seats);
end
$$;
revoke execute on function app.find_provisioned_seat(app.teams, uuid, text, int)
  from public, anon, authenticated;

-- app.start_provisioned: a user has become active -----------------------------------------------------------
-- Their person joins at once when they are known. Whoever was invited as well is in now, and takes one seat.
create function app.start_provisioned(p_team app.teams, p_user app.scim_users, p_actor text)
returns void
language plpgsql
set search_path = ''
as $$
declare
  v_known uuid := coalesce(p_user.account_id, app.find_known_member(p_team.id, p_user.email));
begin
  delete from app.team_invitations
   where team_id = p_team.id and kind = 'member' and accepted_at is null
     and lower(email) = lower(p_user.email);
  update app.scim_users set account_id = v_known, role = app.provisioned_role(p_user) where id = p_user.id
  returning * into p_user;
  perform app.append_audit(p_team.id, p_actor, 'member.provision', 'scim_user', p_user.id::text,
    jsonb_build_object('role', p_user.role));
  if v_known is not null then
    perform app.join_provisioned(p_team, p_user, p_actor);
  else
    perform app.emit_event(p_team.account_id, 'member.added', jsonb_build_object(
      'team_id', p_team.id, 'member_id', p_user.id, 'role', p_user.role, 'scim_user_id', p_user.id));
  end if;
end
$$;
revoke execute on function app.start_provisioned(app.teams, app.scim_users, text)
  from public, anon, authenticated;

-- app.stop_provisioned: a user is active no more: everything ends at once -----------------------------------
-- Who held the key took it along, so a rotation is due. The last admin cannot go. When the owner goes, the
-- admin of longest standing owns the team. The caller updates or deletes the user's row.
create function app.stop_provisioned(p_team app.teams, p_user app.scim_users, p_actor text, p_reason text)
returns void
language plpgsql
set search_path = ''
as $$
declare
  v_member_id text := p_user.id::text;
  v_owner uuid := p_team.account_id;
  v_member boolean := p_user.account_id is not null and exists (
    select from app.team_members
     where team_id = p_team.id and account_id = p_user.account_id and status = 'active');
  v_exposed boolean := v_member and exists (
    select from app.team_grants where team_id = p_team.id and account_id = p_user.account_id);
begin
  if p_user.account_id is not null and not v_member then
    return; -- an admin has removed them before
  end if;
  if v_member then
    if app.count_admins(p_team.id, p_user.account_id) = 0 then
      perform app.refuse('last_admin');
    end if;
    v_member_id := (select subject from app.accounts where id = p_user.account_id);
    perform app.drop_member(p_team.id, p_user.account_id);
    if v_owner = p_user.account_id then
      v_owner := (
        select m.account_id
          from app.team_members m
          join app.team_grants g on g.team_id = m.team_id and g.account_id = m.account_id
         where m.team_id = p_team.id and m.role = 'admin' and m.status = 'active'
         order by m.created_at, m.account_id limit 1);
    end if;
    update app.teams
       set account_id = v_owner,
           exposed_rotation_seq = case when v_exposed then rotation_seq else exposed_rotation_seq end
     where id = p_team.id;
  end if;
  perform app.append_audit(p_team.id, p_actor, 'member.remove', 'member', v_member_id,
    jsonb_build_object('reason', p_reason, 'scim_user_id', p_user.id, 'rotation_due', v_exposed));
  perform app.emit_event(v_owner, 'member.removed', jsonb_build_object(
    'team_id', p_team.id, 'member_id', v_member_id, 'scim_user_id', p_user.id, 'rotation_due', v_exposed));
end
$$;
revoke execute on function app.stop_provisioned(app.teams, app.scim_users, text, text)
  from public, anon, authenticated;

-- app.sync_roles: give everyone the role that the directory gives them now ----------------------------------
-- Of the named users, or all. Only where that role has changed: what an admin decides stands until then.
create function app.sync_roles(p_team_id uuid, p_actor text, p_user_ids uuid[])
returns void
language plpgsql
set search_path = ''
as $$
declare
  v_user app.scim_users;
  v_role text;
  v_member app.team_members;
begin
  for v_user in
    select u.* from app.scim_users u
     where u.team_id = p_team_id and (p_user_ids is null or u.id = any (p_user_ids))
       and app.provisioned_role(u) <> u.role
     -- Whoever becomes an admin first, so that others may stop being one.
     order by app.rank_role(app.provisioned_role(u)) desc, u.id
  loop
    v_role := app.provisioned_role(v_user);
    update app.scim_users set role = v_role where id = v_user.id;
    select * into v_member from app.team_members
     where team_id = p_team_id and account_id = v_user.account_id and status = 'active';
    if v_member.role <> v_role then
      perform app.set_member_role(p_team_id, v_user.account_id, v_role);
    end if;
    if v_user.active and (v_user.account_id is null or v_member.role <> v_role) then
      perform app.append_audit(p_team_id, p_actor, 'member.update', 'member',
        coalesce((select subject from app.accounts where id = v_user.account_id), v_user.id::text),
        jsonb_build_object('role', v_role, 'scim_user_id', v_user.id));
    end if;
  end loop;
end
$$;
revoke execute on function app.sync_roles(uuid, text, uuid[]) from public, anon, authenticated;

-- app.link_expected: somebody has signed in whom directories expect -----------------------------------------
-- By the e-mail address that their session vouches for. One probe of an index when nobody does. Each team is
-- locked before anything else of the request is, as everywhere.
create function app.link_expected(p_subject text, p_email text)
returns void
language plpgsql
set search_path = ''
as $$
declare
  v_account_id uuid;
  v_expected record;
  v_team app.teams;
  v_user app.scim_users;
begin
  if p_email is null then
    return;
  end if;
  for v_expected in
    select id, team_id from app.scim_users
     where lower(email) = lower(p_email) and active and account_id is null order by team_id
  loop
    select * into v_team from app.teams where id = v_expected.team_id for no key update;
    v_account_id := app.open_user(p_subject, p_email);
    -- Under the lock: the directory may have changed its mind. Nobody is two users of one directory.
    update app.scim_users set account_id = v_account_id
     where id = v_expected.id and active and account_id is null and lower(email) = lower(p_email)
       and not exists (
         select from app.scim_users u
          where u.team_id = v_team.id and u.account_id = v_account_id and u.active)
    returning * into v_user;
    if found then
      perform app.join_provisioned(v_team, v_user, p_subject);
    end if;
  end loop;
end
$$;
revoke execute on function app.link_expected(text, text) from public, anon, authenticated;

-- app.enter_team: as before; first of all the caller may be one whom a directory expects --------------------
create or replace function app.enter_team(
  p_team_id uuid, p_subject text, p_email text, p_role text, p_lock boolean
)
returns app.team_actor
language plpgsql
set search_path = ''
as $$
declare
  v_actor app.team_actor;
  v_team app.teams;
begin
  perform app.link_expected(p_subject, p_email);
  if p_lock then
    select * into v_team from app.teams where id = p_team_id for no key update;
  else
    select * into v_team from app.teams where id = p_team_id;
  end if;
  v_actor.team := v_team;
  v_actor.subject := p_subject;
  -- After the team's lock: an account that is made or changed here is locked too.
  v_actor.account_id := app.open_user(p_subject, p_email);
  select role into v_actor.role from app.team_members
   where team_id = p_team_id and account_id = v_actor.account_id and status = 'active';
  if v_actor.role is null then
    perform app.refuse('not_a_team_member');
  elsif app.rank_role(v_actor.role) < app.rank_role(p_role) then
    perform app.refuse('forbidden_role', jsonb_build_object('role', v_actor.role, 'required_role', p_role));
  end if;
  return v_actor;
end
$$;
revoke execute on function app.enter_team(uuid, text, text, text, boolean) from public, anon, authenticated;

-- api.read_grant: as before; somebody whom the directory expects is a member whose grant has not come yet ---
create or replace function api.read_grant(p_subject text, p_email text, p_team_id uuid)
returns jsonb
language plpgsql
security definer
set search_path = ''
as $$
declare
  v_account_id uuid;
  v_member app.team_members;
  v_grant app.team_grants;
begin
  perform app.link_expected(p_subject, p_email);
  v_account_id := app.open_user(p_subject, p_email);
  select * into v_member from app.team_members where team_id = p_team_id and account_id = v_account_id;
  if not found then
    perform app.refuse('not_a_team_member');
  end if;
  select * into v_grant from app.team_grants where team_id = p_team_id and account_id = v_account_id;
  -- Somebody who was removed is told the same as somebody whose grant has not come yet.
  if not found or v_member.status <> 'active' then
    perform app.refuse('no_grant');
  end if;
  return jsonb_build_object(
    'team_id', p_team_id, 'wrapped_dek', v_grant.wrapped_dek, 'member_pubkey', v_grant.member_pubkey,
    'rotation_seq', v_grant.rotation_seq);
end
$$;
revoke execute on function api.read_grant(text, text, uuid) from public, anon, authenticated;
grant execute on function api.read_grant(text, text, uuid) to service_role;
