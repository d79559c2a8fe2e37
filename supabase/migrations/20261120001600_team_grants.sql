-- Making a team, wrapping its key for members, and rotating it. Spec 2.8 and 4.5.

-- app.show_team: a team as one of its members sees it (spec 2.8) ----------------------------------------------
create function app.show_team(p_team app.teams, p_role text)
returns jsonb
language sql
stable
set search_path = ''
as $$
  select jsonb_build_object(
    'id', p_team.id,
    'name', p_team.name,
    'role', p_role,
    'rotation_seq', p_team.rotation_seq,
    'created_at', app.iso(p_team.created_at)
  )
$$;
revoke execute on function app.show_team(app.teams, text) from public, anon, authenticated;

-- api.create_team: a team with its maker as admin, who holds the first grant ----------------------------------
-- The id is the caller's to choose, so that a repeated call finds the team it made.
create function api.create_team(
  p_subject text, p_email text, p_team_id uuid, p_name text, p_owner_pubkey text, p_owner_wrapped_dek text
)
returns jsonb
language plpgsql
security definer
set search_path = ''
as $$
declare
  v_account_id uuid := app.open_user(p_subject, p_email);
  v_team app.teams;
begin
  insert into app.owners (id, kind) values (p_team_id, 'team') on conflict do nothing;
  if found then
    insert into app.teams (id, name, account_id) values (p_team_id, p_name, v_account_id);
    insert into app.team_members (team_id, account_id, role) values (p_team_id, v_account_id, 'admin');
    insert into app.team_grants (team_id, account_id, wrapped_dek, member_pubkey, rotation_seq)
    values (p_team_id, v_account_id, p_owner_wrapped_dek, p_owner_pubkey, 0);
    perform app.append_audit(p_team_id, p_subject, 'team.create', 'team', p_team_id::text,
      jsonb_build_object('name', p_name));
    perform app.emit_event(v_account_id, 'team.created', jsonb_build_object('team_id', p_team_id));
  end if;
  select * into v_team from app.teams where id = p_team_id and account_id = v_account_id;
  return app.show_team(v_team, 'admin');
end
$$;
revoke execute on function api.create_team(text, text, uuid, text, text, text) from public, anon, authenticated;
grant execute on function api.create_team(text, text, uuid, text, text, text) to service_role;

-- api.list_teams: the caller's teams, oldest first ------------------------------------------------------------
create function api.list_teams(p_subject text, p_email text)
returns jsonb
language plpgsql
security definer
set search_path = ''
as $$
declare
  v_account_id uuid := app.open_user(p_subject, p_email);
begin
  return coalesce((
    select jsonb_agg(app.show_team(t, m.role) order by t.created_at, t.id)
      from app.team_members m join app.teams t on t.id = m.team_id
     where m.account_id = v_account_id and m.status = 'active'
  ), '[]');
end
$$;
revoke execute on function api.list_teams(text, text) from public, anon, authenticated;
grant execute on function api.list_teams(text, text) to service_role;

-- api.list_members: the roster. Never a key or a wrapped one --------------------------------------------------
create function api.list_members(p_subject text, p_email text, p_team_id uuid)
returns jsonb
language plpgsql
security definer
set search_path = ''
as $$
begin
  perform app.enter_team(p_team_id, p_subject, p_email, 'read', false);
  return jsonb_build_object('team_id', p_team_id, 'members', (
    select jsonb_agg(jsonb_build_object(
             'member_id', a.subject,
             'role', m.role,
             'status', m.status,
             'has_grant', g.account_id is not null,
             'created_at', app.iso(m.created_at)
           ) order by m.created_at, a.subject)
      from app.team_members m
      join app.accounts a on a.id = m.account_id
      left join app.team_grants g on g.team_id = m.team_id and g.account_id = m.account_id
     where m.team_id = p_team_id and m.status = 'active'
  ));
end
$$;
revoke execute on function api.list_members(text, text, uuid) from public, anon, authenticated;
grant execute on function api.list_members(text, text, uuid) to service_role;

-- app.count_admins: admins other than one account -------------------------------------------------------------
-- Who hold a grant: an admin without one could neither wrap the key for anybody nor read what there is.
create function app.count_admins(p_team_id uuid, p_except uuid)
returns int
language sql
stable
set search_path = ''
as $$
  select count(*)::int
    from app.team_members m
    join app.team_grants g on g.team_id = m.team_id and g.account_id = m.account_id
   where m.team_id = p_team_id and m.role = 'admin' and m.status = 'active' and m.account_id <> p_except
$$;
revoke execute on function app.count_admins(uuid, uuid) from public, anon, authenticated;

-- api.grant_team_key: wrap the key for somebody ----------------------------------------------------------------
-- Makes them a member (after the seat check), or gives a member another wrap, key or role. `p_rotation_seq` is the
-- epoch that the wrapped key is of; null says the running one. Returns {"team_id", "member_id", "role"}, or what
-- `app.find_seat` answers.
create function api.grant_team_key(
  p_subject text, p_email text, p_team_id uuid, p_member_id text, p_member_pubkey text, p_wrapped_dek text,
  p_role text, p_rotation_seq int, p_seats int
)
returns jsonb
language plpgsql
security definer
set search_path = ''
set lock_timeout = '5s'
as $$
declare
  v_actor app.team_actor := app.enter_team(p_team_id, p_subject, p_email, 'admin', true);
  v_team app.teams := v_actor.team;
  v_account_id uuid := app.open_user(p_member_id);
  v_guest_email text := (select email from app.accounts where id = v_account_id);
  v_member app.team_members;
  v_answer jsonb;
begin
  if p_rotation_seq <> v_team.rotation_seq then
    perform app.refuse('stale_rotation', jsonb_build_object('rotation_seq', v_team.rotation_seq));
  end if;
  select * into v_member from app.team_members where team_id = p_team_id and account_id = v_account_id;
  if v_member.status = 'active' and v_member.role = p_role and exists (
    select from app.team_grants
     where team_id = p_team_id and account_id = v_account_id and rotation_seq = v_team.rotation_seq
       and wrapped_dek = p_wrapped_dek and member_pubkey = p_member_pubkey
  ) then
    -- The same again: nothing changes, and there is nothing to record.
    return jsonb_build_object('team_id', p_team_id, 'member_id', p_member_id, 'role', p_role);
  elsif v_member.status is distinct from 'active' then
    v_answer := app.find_seat(v_team, v_guest_email, p_seats);
    if v_answer is not null then
      return v_answer;
    end if;
  elsif v_member.role = 'admin' and p_role <> 'admin' and app.count_admins(p_team_id, v_account_id) = 0 then
    perform app.refuse('last_admin');
  end if;
  insert into app.team_members as m (team_id, account_id, role) values (p_team_id, v_account_id, p_role)
  on conflict (team_id, account_id) do update
    set role = excluded.role, status = 'active',
        created_at = case when m.status = 'active' then m.created_at else now() end;
  insert into app.team_grants (team_id, account_id, wrapped_dek, member_pubkey, rotation_seq)
  values (p_team_id, v_account_id, p_wrapped_dek, p_member_pubkey, v_team.rotation_seq)
  on conflict (team_id, account_id) do update
    set wrapped_dek = excluded.wrapped_dek, member_pubkey = excluded.member_pubkey,
        rotation_seq = excluded.rotation_seq, updated_at = now();
  -- Whoever was invited as well is in now, and takes one seat.
  delete from app.team_invitations
   where team_id = p_team_id and kind = 'member' and lower(email) = lower(v_guest_email) and accepted_at is null;
  perform app.append_audit(p_team_id, p_subject,
    case when v_member.status = 'active' then 'grant.update' else 'member.add' end, 'member', p_member_id,
    jsonb_build_object('role', p_role, 'rotation_seq', v_team.rotation_seq));
  if v_member.status is distinct from 'active' then
    perform app.emit_event(v_team.account_id, 'member.added', jsonb_build_object(
      'team_id', p_team_id, 'member_id', p_member_id, 'role', p_role));
  end if;
  return jsonb_build_object('team_id', p_team_id, 'member_id', p_member_id, 'role', p_role);
end
$$;
revoke execute on function api.grant_team_key(text, text, uuid, text, text, text, text, int, int)
  from public, anon, authenticated;
grant execute on function api.grant_team_key(text, text, uuid, text, text, text, text, int, int)
  to service_role;

-- api.read_grant: the caller's wrapped key --------------------------------------------------------------------
create function api.read_grant(p_subject text, p_email text, p_team_id uuid)
returns jsonb
language plpgsql
security definer
set search_path = ''
as $$
declare
  v_account_id uuid := app.open_user(p_subject, p_email);
  v_member app.team_members;
  v_grant app.team_grants;
begin
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
