-- Making vaults, and who is named in them: heirs and guardians are invited, accept, and are confirmed by the owner.
--
-- A token is made when a mail is sent and is nowhere but in it. Taking somebody away who is in waits as long as the
-- longest window; adding somebody does not.

-- api.create_vault: a vault of the caller's, with nothing armed --------------------------------------------------
-- The id is the service's to choose, so that a repeated call finds the vault it made.
create function api.create_vault(
  p_key_hash bytea, p_subject text, p_email text, p_vault_id uuid, p_name text, p_sss_preset text, p_now timestamptz
)
returns jsonb
language plpgsql
security definer
set search_path = ''
set lock_timeout = '5s'
as $$
declare
  v_caller app.vault_caller := app.find_vault_caller(p_key_hash, p_subject, p_email, null);
begin
  -- One at a time for each account, so that they can be counted.
  perform 1 from app.accounts where id = v_caller.account_id for no key update;
  if not exists (select from app.vaults where id = p_vault_id) then
    if (select count(*) from app.vaults where account_id = v_caller.account_id) >= 20 then
      perform app.refuse('vault_limit_reached', jsonb_build_object('limit', 20, 'of', 'vaults'));
    end if;
    insert into app.vaults (id, account_id, name, sss_preset, claim_quorum, last_check_in_at, created_at)
    values (p_vault_id, v_caller.account_id, p_name, p_sss_preset, app.vault_threshold(p_sss_preset), p_now, p_now);
    perform app.record_vault(p_vault_id, v_caller.actor, 'vault.create', 'vault', p_vault_id,
      jsonb_build_object('sss_preset', p_sss_preset), 'vault.created', p_now);
  end if;
  return app.show_vault(p_vault_id);
end
$$;
revoke execute on function api.create_vault(bytea, text, text, uuid, text, text, timestamptz)
  from public, anon, authenticated;
grant execute on function api.create_vault(bytea, text, text, uuid, text, text, timestamptz) to service_role;

-- api.list_vaults: the caller's vaults as they are now, oldest first --------------------------------------------
create function api.list_vaults(p_key_hash bytea, p_subject text, p_email text, p_now timestamptz)
returns jsonb
language plpgsql
security definer
set search_path = ''
set lock_timeout = '5s'
as $$
declare
  v_caller app.vault_caller := app.find_vault_caller(p_key_hash, p_subject, p_email, null);
  v_id uuid;
begin
  for v_id in
    select id from app.vaults where account_id = v_caller.account_id and look_at <= p_now order by id
      for no key update
  loop
    perform app.evaluate_vault(v_id, p_now);
  end loop;
  return coalesce((
    select jsonb_agg(app.show_vault_line(v) order by v.created_at, v.id)
      from app.vaults v where v.account_id = v_caller.account_id), '[]');
end
$$;
revoke execute on function api.list_vaults(bytea, text, text, timestamptz) from public, anon, authenticated;
grant execute on function api.list_vaults(bytea, text, text, timestamptz) to service_role;

-- api.read_vault: one of them ----------------------------------------------------------------------------------------
create function api.read_vault(p_key_hash bytea, p_subject text, p_email text, p_vault_id uuid, p_now timestamptz)
returns jsonb
language plpgsql
security definer
set search_path = ''
set lock_timeout = '5s'
as $$
begin
  perform app.enter_vault(p_vault_id, p_key_hash, p_subject, p_email, p_now);
  return app.show_vault(p_vault_id);
end
$$;
revoke execute on function api.read_vault(bytea, text, text, uuid, timestamptz) from public, anon, authenticated;
grant execute on function api.read_vault(bytea, text, text, uuid, timestamptz) to service_role;

-- app.invite_person: the mail with the token ----------------------------------------------------------------------
create function app.invite_person(p_person app.vault_people)
returns void
language sql
set search_path = ''
as $$
  select app.queue_mail('vault_invitation', p_person.email, p_person.id, jsonb_build_object(
           'vault_name', v.name, 'vault_id', v.id, 'role', p_person.role, 'inviter', a.email,
           'expires_at', app.iso(p_person.expires_at)))
    from app.vaults v join app.accounts a on a.id = v.account_id where v.id = p_person.vault_id
$$;
revoke execute on function app.invite_person(app.vault_people) from public, anon, authenticated;

-- app.require_share_room: no more shares than there are of the preset -------------------------------------------
create function app.require_share_room(p_vault app.vaults, p_person_id uuid)
returns void
language plpgsql
set search_path = ''
as $$
begin
  if app.vault_shares(p_vault.sss_preset) <= (
    select count(*) from app.vault_people
     where vault_id = p_vault.id and wrapped_share is not null and id <> p_person_id) then
    perform app.refuse('vault_limit_reached', jsonb_build_object(
      'limit', app.vault_shares(p_vault.sss_preset), 'of', 'shares'));
  end if;
end
$$;
revoke execute on function app.require_share_room(app.vaults, uuid) from public, anon, authenticated;

-- api.add_person: name an heir or a guardian ------------------------------------------------------------------------
create function api.add_person(
  p_key_hash bytea, p_subject text, p_email text, p_vault_id uuid, p_person_id uuid, p_role text, p_name text,
  p_person_email text, p_wallet_address text, p_public_key text, p_wrapped_share text, p_now timestamptz
)
returns jsonb
language plpgsql
security definer
set search_path = ''
set lock_timeout = '5s'
as $$
declare
  v_visit app.vault_visit := app.enter_vault(
    p_vault_id, p_key_hash, p_subject, p_email, p_now, array['active', 'releasing']);
  v_vault app.vaults := v_visit.vault;
  v_limit int := case p_role when 'heir' then 20 else 10 end;
  v_person app.vault_people;
begin
  select * into v_person from app.vault_people where id = p_person_id and vault_id = p_vault_id;
  if found then
    return app.show_person(v_person);
  end if;
  if exists (select from app.accounts where id = v_vault.account_id and lower(email) = lower(p_person_email)) then
    perform app.refuse('invalid_field:email', jsonb_build_object('reason', 'own_address'));
  elsif exists (
    select from app.vault_people where vault_id = p_vault_id and role = p_role and lower(email) = lower(p_person_email)
       and ended_at is null) then
    perform app.refuse('person_exists', jsonb_build_object('role', p_role));
  elsif (select count(*) from app.vault_people
          where vault_id = p_vault_id and role = p_role and ended_at is null) >= v_limit then
    perform app.refuse('vault_limit_reached', jsonb_build_object('limit', v_limit, 'of', p_role || 's'));
  end if;
  if p_wrapped_share is not null then
    perform app.require_share_room(v_vault, p_person_id);
  end if;
  insert into app.vault_people (
    id, vault_id, role, name, email, wallet_address, public_key, wrapped_share, expires_at, created_at)
  values (p_person_id, p_vault_id, p_role, p_name, p_person_email, p_wallet_address, p_public_key, p_wrapped_share,
    p_now + interval '720 hours', p_now)
  returning * into v_person;
  perform app.invite_person(v_person);
  perform app.record_vault(p_vault_id, (v_visit.caller).actor, p_role || '.invite', 'person', p_person_id,
    jsonb_build_object('role', p_role, 'status', 'pending'), 'vault.person_updated', p_now);
  perform app.evaluate_vault(p_vault_id, p_now);
  return app.show_person(v_person);
end
$$;
revoke execute on function api.add_person(
  bytea, text, text, uuid, uuid, text, text, text, text, text, text, timestamptz) from public, anon, authenticated;
grant execute on function api.add_person(
  bytea, text, text, uuid, uuid, text, text, text, text, text, text, timestamptz) to service_role;

-- app.find_person: an heir or guardian of a vault who is still named in it --------------------------------------
create function app.find_person(p_vault_id uuid, p_role text, p_person_id uuid)
returns app.vault_people
language plpgsql
stable
set search_path = ''
as $$
declare
  v_person app.vault_people;
begin
  select * into v_person from app.vault_people
   where id = p_person_id and vault_id = p_vault_id and role = p_role and status <> 'removed';
  if not found then
    perform app.refuse('person_not_found');
  end if;
  return v_person;
end
$$;
revoke execute on function app.find_person(uuid, text, uuid) from public, anon, authenticated;

-- app.confirm_person: they are in ------------------------------------------------------------------------------------
create function app.confirm_person(p_person app.vault_people, p_actor text, p_now timestamptz)
returns void
language plpgsql
set search_path = ''
as $$
begin
  update app.vault_people set status = 'confirmed', confirmed_at = p_now
   where id = p_person.id and status = 'accepted';
  if found then
    perform app.record_vault(p_person.vault_id, p_actor, p_person.role || '.confirm', 'person', p_person.id,
      jsonb_build_object('role', p_person.role, 'status', 'confirmed'), 'vault.person_updated', p_now);
  end if;
end
$$;
revoke execute on function app.confirm_person(app.vault_people, text, timestamptz) from public, anon, authenticated;

-- api.confirm_person: the owner says that it is them, and wraps a share for their key ---------------------------
-- For somebody who is in already it replaces the share.
create function api.confirm_person(
  p_key_hash bytea, p_subject text, p_email text, p_vault_id uuid, p_role text, p_person_id uuid,
  p_wrapped_share text, p_now timestamptz
)
returns jsonb
language plpgsql
security definer
set search_path = ''
set lock_timeout = '5s'
as $$
declare
  v_visit app.vault_visit := app.enter_vault(
    p_vault_id, p_key_hash, p_subject, p_email, p_now, array['active', 'releasing']);
  v_person app.vault_people := app.find_person(p_vault_id, p_role, p_person_id);
begin
  if v_person.status not in ('accepted', 'confirmed') then
    perform app.refuse('person_not_accepted', jsonb_build_object('status', v_person.status));
  elsif p_wrapped_share is not null then
    perform app.require_share_room(v_visit.vault, p_person_id);
    update app.vault_people set wrapped_share = p_wrapped_share where id = p_person_id;
  end if;
  perform app.confirm_person(v_person, (v_visit.caller).actor, p_now);
  perform app.evaluate_vault(p_vault_id, p_now);
  return app.show_person(app.find_person(p_vault_id, p_role, p_person_id));
end
$$;
revoke execute on function api.confirm_person(bytea, text, text, uuid, text, uuid, text, timestamptz)
  from public, anon, authenticated;
grant execute on function api.confirm_person(bytea, text, text, uuid, text, uuid, text, timestamptz) to service_role;

-- api.resend_invitation: another mail; the tokens of the ones before stop working -------------------------------
create function api.resend_invitation(
  p_key_hash bytea, p_subject text, p_email text, p_vault_id uuid, p_role text, p_person_id uuid, p_now timestamptz
)
returns jsonb
language plpgsql
security definer
set search_path = ''
set lock_timeout = '5s'
as $$
declare
  v_visit app.vault_visit := app.enter_vault(
    p_vault_id, p_key_hash, p_subject, p_email, p_now, array['active', 'releasing']);
  v_person app.vault_people := app.find_person(p_vault_id, p_role, p_person_id);
begin
  if v_person.ended_at is not null then
    perform app.refuse('person_not_found');
  end if;
  delete from app.vault_tokens where person_id = p_person_id;
  update app.vault_people set expires_at = p_now + interval '720 hours' where id = p_person_id
  returning * into v_person;
  perform app.invite_person(v_person);
  perform app.record_vault(p_vault_id, (v_visit.caller).actor, p_role || '.resend', 'person', p_person_id,
    jsonb_build_object('role', p_role, 'status', v_person.status), null, p_now);
  perform app.evaluate_vault(p_vault_id, p_now);
  return app.show_person(v_person);
end
$$;
revoke execute on function api.resend_invitation(bytea, text, text, uuid, text, uuid, timestamptz)
  from public, anon, authenticated;
grant execute on function api.resend_invitation(bytea, text, text, uuid, text, uuid, timestamptz) to service_role;

-- app.vault_cooling: how long what weakens a vault has to wait ----------------------------------------------------
create function app.vault_cooling(p_vault app.vaults)
returns interval
language sql
immutable
parallel safe
set search_path = ''
as $$
  select make_interval(hours => greatest(
    24, p_vault.switch_window_hours, p_vault.manual_window_hours, p_vault.claim_window_hours))
$$;
revoke execute on function app.vault_cooling(app.vaults) from public, anon, authenticated;

-- app.queue_change: a change that has to wait ----------------------------------------------------------------------
create function app.queue_change(p_visit app.vault_visit, p_change app.vault_changes, p_now timestamptz)
returns app.vault_changes
language plpgsql
set search_path = ''
as $$
declare
  v_vault app.vaults := p_visit.vault;
  v_change app.vault_changes := p_change;
begin
  v_change.vault_id := v_vault.id;
  v_change.proven := (p_visit.caller).proof <> 'key';
  v_change.state := 'pending';
  v_change.requested_at := p_now;
  v_change.executes_at := p_now + app.vault_cooling(v_vault);
  insert into app.vault_changes select v_change.*;
  perform app.record_vault(v_vault.id, (p_visit.caller).actor, 'change.request', 'change', v_change.id,
    jsonb_build_object('kind', v_change.kind, 'trigger', v_change.trigger,
      'executes_at', app.iso(v_change.executes_at)), 'vault.change_updated', p_now);
  perform app.tell_vault(v_vault, 'vault_change_pending', array['owner'], jsonb_build_object(
    'change', v_change.kind, 'executes_at', app.iso(v_change.executes_at)));
  return v_change;
end
$$;
revoke execute on function app.queue_change(app.vault_visit, app.vault_changes, timestamptz)
  from public, anon, authenticated;

-- api.remove_person: take somebody away ---------------------------------------------------------------------------
-- At once while they have not accepted; else after the cooling period. Returns {"id", "status"}, with "change" while
-- it waits.
create function api.remove_person(
  p_key_hash bytea, p_subject text, p_email text, p_vault_id uuid, p_role text, p_person_id uuid, p_change_id uuid,
  p_now timestamptz
)
returns jsonb
language plpgsql
security definer
set search_path = ''
set lock_timeout = '5s'
as $$
declare
  v_visit app.vault_visit := app.enter_vault(p_vault_id, p_key_hash, p_subject, p_email, p_now, array['active']);
  v_person app.vault_people;
  v_change app.vault_changes;
begin
  select * into v_person from app.vault_people
   where id = p_person_id and vault_id = p_vault_id and role = p_role;
  if not found then
    perform app.refuse('person_not_found');
  elsif v_person.status in ('accepted', 'confirmed') then
    select * into v_change from app.vault_changes
     where vault_id = p_vault_id and person_id = p_person_id and state = 'pending';
    if not found then
      v_change.id := p_change_id;
      v_change.kind := 'remove_' || p_role;
      v_change.person_id := p_person_id;
      v_change := app.queue_change(v_visit, v_change, p_now);
    end if;
  elsif v_person.ended_at is null then
    perform app.end_person(v_person, 'removed', (v_visit.caller).actor, p_now);
  else
    -- Whoever left by themselves is not shown any longer.
    update app.vault_people set status = 'removed' where id = p_person_id;
  end if;
  perform app.evaluate_vault(p_vault_id, p_now);
  if v_change.id is null then
    return jsonb_build_object('id', p_person_id, 'status', 'removed');
  end if;
  return jsonb_build_object('id', p_person_id, 'status', v_person.status, 'change', app.show_change(v_change));
end
$$;
revoke execute on function api.remove_person(bytea, text, text, uuid, text, uuid, uuid, timestamptz)
  from public, anon, authenticated;
grant execute on function api.remove_person(bytea, text, text, uuid, text, uuid, uuid, timestamptz) to service_role;
