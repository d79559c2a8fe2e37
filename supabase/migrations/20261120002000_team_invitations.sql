-- Invitations: by mail, to an address, once. Spec 2.8, 4.5 and 4.8.
--
-- The token is made when the mail is sent and is nowhere but in it; here is only its hash. Whoever accepts must be
-- signed in with the address that was invited. Every way in which a token is not good looks the same.

-- app.invite: the invitation row, its mail and its entry in the ledger ----------------------------------------
-- An open invitation of the same kind to the same address is replaced: its token stops working. The id is the
-- service's to choose, so that a repeated call finds the invitation it made.
create function app.invite(
  p_actor app.team_actor, p_invitation_id uuid, p_kind text, p_guest_email text, p_role text
)
returns app.team_invitations
language plpgsql
set search_path = ''
as $$
declare
  v_team app.teams := p_actor.team;
  v_invitation app.team_invitations;
begin
  select * into v_invitation from app.team_invitations where id = p_invitation_id and team_id = v_team.id;
  if found then
    return v_invitation;
  end if;
  delete from app.team_invitations
   where team_id = v_team.id and kind = p_kind and lower(email) = lower(p_guest_email) and accepted_at is null;
  insert into app.team_invitations (id, team_id, kind, email, role, invited_by)
  values (p_invitation_id, v_team.id, p_kind, p_guest_email, p_role, p_actor.account_id)
  returning * into v_invitation;
  perform app.queue_mail(
    case p_kind when 'member' then 'team_invitation' else 'guardian_invitation' end, p_guest_email,
    v_invitation.id, jsonb_build_object(
      'team_name', v_team.name, 'role', p_role,
      'inviter', (select email from app.accounts where id = p_actor.account_id),
      'expires_at', app.iso(v_invitation.expires_at)));
  -- The address is the guest's, not the ledger's: it is exported and kept for ever.
  perform app.append_audit(v_team.id, p_actor.subject, 'invitation.create', 'invitation', v_invitation.id::text,
    jsonb_strip_nulls(jsonb_build_object('kind', p_kind, 'role', p_role)));
  perform app.emit_event(v_team.account_id, 'invitation.created', jsonb_build_object(
    'team_id', v_team.id, 'invitation_id', v_invitation.id));
  return v_invitation;
end
$$;
revoke execute on function app.invite(app.team_actor, uuid, text, text, text) from public, anon, authenticated;

-- api.invite_member: somebody may join in a role --------------------------------------------------------------
-- Returns the invitation, or what `app.find_seat` answers. Inviting an address again takes no second seat.
create function api.invite_member(
  p_subject text, p_email text, p_team_id uuid, p_invitation_id uuid, p_guest_email text, p_role text,
  p_seats int
)
returns jsonb
language plpgsql
security definer
set search_path = ''
set lock_timeout = '5s'
as $$
declare
  v_actor app.team_actor := app.enter_team(p_team_id, p_subject, p_email, 'admin', true);
  v_invitation app.team_invitations;
  v_answer jsonb;
begin
  v_answer := app.find_seat(v_actor.team, p_guest_email, p_seats);
  if v_answer is not null then
    return v_answer;
  end if;
  v_invitation := app.invite(v_actor, p_invitation_id, 'member', p_guest_email, p_role);
  return jsonb_build_object(
    'invitation_id', v_invitation.id, 'team_id', p_team_id, 'email', v_invitation.email,
    'role', v_invitation.role, 'expires_at', app.iso(v_invitation.expires_at));
end
$$;
revoke execute on function api.invite_member(text, text, uuid, uuid, text, text, int)
  from public, anon, authenticated;
grant execute on function api.invite_member(text, text, uuid, uuid, text, text, int) to service_role;

-- api.invite_guardian: somebody may help to recover the key ---------------------------------------------------
create function api.invite_guardian(
  p_subject text, p_email text, p_team_id uuid, p_invitation_id uuid, p_guest_email text
)
returns jsonb
language plpgsql
security definer
set search_path = ''
set lock_timeout = '5s'
as $$
declare
  v_actor app.team_actor := app.enter_team(p_team_id, p_subject, p_email, 'admin', true);
  v_invitation app.team_invitations;
begin
  v_invitation := app.invite(v_actor, p_invitation_id, 'guardian', p_guest_email, null);
  return jsonb_build_object(
    'invitation_id', v_invitation.id, 'guardian_email', v_invitation.email, 'type', 'guardian',
    'expires_at', app.iso(v_invitation.expires_at));
end
$$;
revoke execute on function api.invite_guardian(text, text, uuid, uuid, text) from public, anon, authenticated;
grant execute on function api.invite_guardian(text, text, uuid, uuid, text) to service_role;

-- api.mint_invitation_token: the mail is about to go out ------------------------------------------------------
-- Returns {"expires_at"}, or null when the invitation is no longer open: then there is nothing to send.
create function api.mint_invitation_token(p_invitation_id uuid, p_token_hash bytea)
returns jsonb
language sql
security definer
set search_path = ''
as $$
  update app.team_invitations set token_hash = p_token_hash
   where id = p_invitation_id and accepted_at is null and expires_at > now()
  returning jsonb_build_object('expires_at', app.iso(expires_at))
$$;
revoke execute on function api.mint_invitation_token(uuid, bytea) from public, anon, authenticated;
grant execute on function api.mint_invitation_token(uuid, bytea) to service_role;

-- app.find_invitation: an open invitation by its token --------------------------------------------------------
create function app.find_invitation(p_token_hash bytea)
returns app.team_invitations
language plpgsql
stable
set search_path = ''
as $$
declare
  v_invitation app.team_invitations;
begin
  select * into v_invitation from app.team_invitations
   where token_hash = p_token_hash and accepted_at is null and expires_at > now();
  if not found then
    perform app.refuse('invitation_not_found');
  end if;
  return v_invitation;
end
$$;
revoke execute on function app.find_invitation(bytea) from public, anon, authenticated;

-- api.read_invitation: what a token is for --------------------------------------------------------------------
create function api.read_invitation(p_token_hash bytea)
returns jsonb
language plpgsql
stable
security definer
set search_path = ''
as $$
declare
  v_invitation app.team_invitations := app.find_invitation(p_token_hash);
begin
  return (
    select jsonb_build_object(
             'invitation_id', v_invitation.id, 'type', v_invitation.kind, 'team_name', t.name,
             'role', v_invitation.role, 'expires_at', app.iso(v_invitation.expires_at), 'accepted', false)
      from app.teams t where t.id = v_invitation.team_id
  );
end
$$;
revoke execute on function api.read_invitation(bytea) from public, anon, authenticated;
grant execute on function api.read_invitation(bytea) to service_role;

-- api.accept_invitation: join, or become a guardian -----------------------------------------------------------
-- A member joins without a grant: an admin's client wraps the key next. The same person accepting again is told the
-- same again.
create function api.accept_invitation(p_subject text, p_email text, p_token_hash bytea)
returns jsonb
language plpgsql
security definer
set search_path = ''
set lock_timeout = '5s'
as $$
declare
  v_account_id uuid;
  v_invitation app.team_invitations;
  v_team app.teams;
  v_joined boolean := false;
begin
  select t.* into v_team
    from app.teams t join app.team_invitations i on i.team_id = t.id
   where i.token_hash = p_token_hash for no key update of t;
  v_account_id := app.open_user(p_subject, p_email);
  -- Read under the lock: it may have been accepted, or replaced, meanwhile.
  select * into v_invitation from app.team_invitations where token_hash = p_token_hash;
  if v_invitation.accepted_by is distinct from v_account_id then
    v_invitation := app.find_invitation(p_token_hash);
    if lower(v_invitation.email) is distinct from lower(p_email) then
      perform app.refuse('invitation_not_found');
    end if;
    update app.team_invitations set accepted_at = now(), accepted_by = v_account_id where id = v_invitation.id;
    if v_invitation.kind = 'member' then
      insert into app.team_members as m (team_id, account_id, role)
      values (v_team.id, v_account_id, v_invitation.role)
      on conflict (team_id, account_id) do update
        set role = excluded.role, status = 'active', created_at = now() where m.status = 'revoked';
      v_joined := found;
    end if;
    perform app.append_audit(v_team.id, p_subject, 'invitation.accept', 'invitation', v_invitation.id::text,
      jsonb_strip_nulls(jsonb_build_object('kind', v_invitation.kind, 'role', v_invitation.role)));
    perform app.emit_event(v_team.account_id, 'invitation.accepted', jsonb_build_object(
      'team_id', v_team.id, 'invitation_id', v_invitation.id));
    if v_joined then
      perform app.emit_event(v_team.account_id, 'member.added', jsonb_build_object(
        'team_id', v_team.id, 'member_id', p_subject, 'role', v_invitation.role));
    end if;
  end if;
  return (
    select jsonb_build_object(
             'invitation_id', v_invitation.id, 'type', v_invitation.kind, 'team_id', t.id, 'team_name', t.name,
             'role', v_invitation.role, 'accepted', true)
      from app.teams t where t.id = v_invitation.team_id
  );
end
$$;
revoke execute on function api.accept_invitation(text, text, bytea) from public, anon, authenticated;
grant execute on function api.accept_invitation(text, text, bytea) to service_role;
