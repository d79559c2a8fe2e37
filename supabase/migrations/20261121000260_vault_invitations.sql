-- What heirs and guardians do with the token from their mail: look, accept, decline.

-- api.mint_invitation_token: as before, and for people of vaults --------------------------------------------------
-- A person may hold several tokens: of the invitation, and of each later mail that leads somewhere. Their subject is
-- the person. Returns {"expires_at"}, which is null for somebody who has accepted.
create or replace function api.mint_invitation_token(p_invitation_id uuid, p_token_hash bytea)
returns jsonb
language plpgsql
security definer
set search_path = ''
set lock_timeout = '5s'
as $$
declare
  v_expires_at timestamptz;
  v_person app.vault_people;
begin
  update app.team_invitations set token_hash = p_token_hash
   where id = p_invitation_id and accepted_at is null and expires_at > now()
  returning expires_at into v_expires_at;
  if found then
    return jsonb_build_object('expires_at', app.iso(v_expires_at));
  end if;
  select * into v_person from app.vault_people where id = p_invitation_id and ended_at is null for share;
  if not found then
    return null;
  end if;
  insert into app.vault_tokens (token_hash, person_id) values (p_token_hash, v_person.id) on conflict do nothing;
  return jsonb_build_object('expires_at', case when v_person.status = 'pending' then app.iso(v_person.expires_at) end);
end
$$;
revoke execute on function api.mint_invitation_token(uuid, bytea) from public, anon, authenticated;
grant execute on function api.mint_invitation_token(uuid, bytea) to service_role;

-- app.show_guest: what an heir or guardian may know ---------------------------------------------------------------
-- An heir hears of a release when it has happened, not before; guardians see claims, and who the heirs are is
-- nobody's business but the owner's.
create function app.show_guest(p_guest app.vault_guest)
returns jsonb
language sql
stable
set search_path = ''
as $$
  select jsonb_build_object(
      'vault_id', (p_guest.vault).id, 'vault_name', (p_guest.vault).name,
      'person_id', (p_guest.person).id, 'role', (p_guest.person).role, 'name', (p_guest.person).name,
      'status', (p_guest.person).status, 'public_key', (p_guest.person).public_key,
      'expires_at', case when (p_guest.person).status = 'pending' then app.iso((p_guest.person).expires_at) end,
      'released', (p_guest.vault).state = 'released')
    || case when (p_guest.person).role = 'guardian' and (p_guest.person).status = 'confirmed' then jsonb_build_object(
      'state', (p_guest.vault).state, 'release_at', app.iso((p_guest.vault).release_at),
      'claim', (select app.show_claim(c) from app.vault_claims c
        where c.vault_id = (p_guest.vault).id and (c.state = 'gathering_votes' or c.id = (p_guest.vault).claim_id)
        order by c.created_at desc limit 1)) else '{}' end
$$;
revoke execute on function app.show_guest(app.vault_guest) from public, anon, authenticated;

-- api.read_vault_invitation: what a token is for ------------------------------------------------------------------
create function api.read_vault_invitation(p_token_hash bytea, p_now timestamptz)
returns jsonb
language plpgsql
security definer
set search_path = ''
set lock_timeout = '5s'
as $$
begin
  return app.show_guest(app.enter_by_token(null, p_token_hash, p_now));
end
$$;
revoke execute on function api.read_vault_invitation(bytea, timestamptz) from public, anon, authenticated;
grant execute on function api.read_vault_invitation(bytea, timestamptz) to service_role;

-- api.accept_vault_invitation: they will do it, and this is their key -------------------------------------------
-- Whoever the owner has wrapped a share for already, for this very key, is in at once. For another key that share
-- is worth nothing and is dropped; the owner wraps anew. Accepting again changes nothing.
create function api.accept_vault_invitation(p_token_hash bytea, p_public_key text, p_now timestamptz)
returns jsonb
language plpgsql
security definer
set search_path = ''
set lock_timeout = '5s'
as $$
declare
  v_guest app.vault_guest := app.enter_by_token(null, p_token_hash, p_now);
  v_person app.vault_people := v_guest.person;
  v_same_key boolean := p_public_key is null or p_public_key is not distinct from (v_guest.person).public_key;
  v_actor text := (v_guest.person).role || ':' || (v_guest.person).id;
begin
  if v_person.status = 'pending' then
    update app.vault_people
       set status = 'accepted', accepted_at = p_now, public_key = coalesce(p_public_key, public_key),
           wrapped_share = case when v_same_key then wrapped_share end
     where id = v_person.id and status = 'pending'
    returning * into v_person;
    perform app.record_vault(v_person.vault_id, v_actor, v_person.role || '.accept', 'person', v_person.id,
      jsonb_build_object('role', v_person.role, 'status', 'accepted'), 'vault.person_updated', p_now);
    if v_person.wrapped_share is not null then
      perform app.confirm_person(v_person, v_actor, p_now);
    else
      perform app.tell_vault(v_guest.vault, 'vault_person_accepted', array['owner'],
        jsonb_build_object('person', v_person.name, 'role', v_person.role));
    end if;
    v_guest.vault := app.evaluate_vault(v_person.vault_id, p_now);
    select * into v_person from app.vault_people where id = v_person.id;
    v_guest.person := v_person;
  end if;
  return app.show_guest(v_guest);
end
$$;
revoke execute on function api.accept_vault_invitation(bytea, text, timestamptz) from public, anon, authenticated;
grant execute on function api.accept_vault_invitation(bytea, text, timestamptz) to service_role;

-- api.decline_vault_invitation: they will not do it, or not any longer ------------------------------------------
-- `p_request_id` is the service's to choose: called again with the same one, the answer is the same.
create function api.decline_vault_invitation(p_token_hash bytea, p_request_id uuid, p_now timestamptz)
returns jsonb
language plpgsql
security definer
set search_path = ''
set lock_timeout = '5s'
as $$
declare
  v_person app.vault_people;
begin
  select * into v_person from app.vault_people where declined_in = p_request_id;
  if not found then
    v_person := (app.enter_by_token(null, p_token_hash, p_now)).person;
    perform app.end_person(v_person, 'declined', v_person.role || ':' || v_person.id, p_now);
    update app.vault_people set declined_in = p_request_id where id = v_person.id;
    perform app.evaluate_vault(v_person.vault_id, p_now);
  end if;
  return jsonb_build_object('vault_id', v_person.vault_id, 'role', v_person.role, 'status', 'declined');
end
$$;
revoke execute on function api.decline_vault_invitation(bytea, uuid, timestamptz) from public, anon, authenticated;
grant execute on function api.decline_vault_invitation(bytea, uuid, timestamptz) to service_role;
