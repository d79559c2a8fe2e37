-- What the owner does about a release: configure, check in, release, veto, arm again.
--
-- Check-in and veto say that the owner lives, so an ordinary API key cannot: an agent outlives its owner. Releasing
-- by hand and arming again take a session. What weakens a vault waits; what strengthens it does not.

-- app.is_weaker: does a change of settings make the vault easier to open? -----------------------------------------
-- Settings of a trigger that is off weaken nothing.
create function app.is_weaker(p_vault app.vaults, p_change app.vault_changes)
returns boolean
language sql
immutable
set search_path = ''
as $$
  select coalesce(case p_change.trigger
    when 'dead_man_switch' then p_vault.switch_enabled and (
      not coalesce(p_change.enabled, true)
      or coalesce(p_change.interval_days < p_vault.switch_interval_days, false)
      or coalesce(p_change.grace_days < p_vault.switch_grace_days, false)
      or coalesce(p_change.window_hours < p_vault.switch_window_hours, false))
    when 'manual' then p_change.window_hours < p_vault.manual_window_hours
    else p_vault.claim_enabled and (
      not coalesce(p_change.enabled, true)
      or coalesce(p_change.quorum < p_vault.claim_quorum, false)
      or coalesce(p_change.window_hours < p_vault.claim_window_hours, false))
  end, false)
$$;
revoke execute on function app.is_weaker(app.vaults, app.vault_changes) from public, anon, authenticated;

-- api.configure_vault: the settings of one trigger; null ones stay ----------------------------------------------
-- A newer configuration of a trigger replaces one that still waits. Returns the vault.
create function api.configure_vault(
  p_key_hash bytea, p_subject text, p_email text, p_vault_id uuid, p_change_id uuid, p_trigger text,
  p_enabled boolean, p_interval_days int, p_grace_days int, p_window_hours int, p_quorum int, p_now timestamptz
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
  v_change app.vault_changes;
begin
  if exists (select from app.vault_changes where id = p_change_id) then
    return app.show_vault(p_vault_id);
  end if;
  v_change.id := p_change_id;
  v_change.vault_id := p_vault_id;
  v_change.kind := 'configure';
  v_change.trigger := p_trigger;
  v_change.enabled := p_enabled;
  v_change.interval_days := p_interval_days;
  v_change.grace_days := p_grace_days;
  v_change.window_hours := p_window_hours;
  v_change.quorum := p_quorum;
  update app.vault_changes set state = 'canceled'
   where vault_id = p_vault_id and kind = 'configure' and trigger = p_trigger and state = 'pending';
  if app.is_weaker(v_visit.vault, v_change) then
    perform app.queue_change(v_visit, v_change, p_now);
  else
    perform app.apply_settings(v_change, p_now);
    perform app.record_vault(p_vault_id, (v_visit.caller).actor, 'release.configure', 'vault', p_vault_id,
      jsonb_build_object('trigger', p_trigger, 'enabled', p_enabled, 'check_in_interval_days', p_interval_days,
        'grace_days', p_grace_days, 'veto_window_hours', p_window_hours, 'quorum', p_quorum), null, p_now);
  end if;
  perform app.evaluate_vault(p_vault_id, p_now);
  return app.show_vault(p_vault_id);
end
$$;
revoke execute on function api.configure_vault(
  bytea, text, text, uuid, uuid, text, boolean, int, int, int, int, timestamptz) from public, anon, authenticated;
grant execute on function api.configure_vault(
  bytea, text, text, uuid, uuid, text, boolean, int, int, int, int, timestamptz) to service_role;

-- api.cancel_change: what waits does not happen --------------------------------------------------------------------
create function api.cancel_change(
  p_key_hash bytea, p_subject text, p_email text, p_vault_id uuid, p_change_id uuid, p_now timestamptz
)
returns jsonb
language plpgsql
security definer
set search_path = ''
set lock_timeout = '5s'
as $$
declare
  v_visit app.vault_visit := app.enter_vault(p_vault_id, p_key_hash, p_subject, p_email, p_now);
  v_change app.vault_changes;
begin
  select * into v_change from app.vault_changes where id = p_change_id and vault_id = p_vault_id;
  if not found or v_change.state = 'done' then
    perform app.refuse('change_not_found');
  elsif v_change.state = 'pending' then
    update app.vault_changes set state = 'canceled' where id = p_change_id and state = 'pending';
    perform app.record_vault(p_vault_id, (v_visit.caller).actor, 'change.cancel', 'change', p_change_id,
      jsonb_build_object('kind', v_change.kind, 'trigger', v_change.trigger), 'vault.change_updated', p_now);
    perform app.evaluate_vault(p_vault_id, p_now);
  end if;
  return jsonb_build_object('id', p_change_id, 'state', 'canceled');
end
$$;
revoke execute on function api.cancel_change(bytea, text, text, uuid, uuid, timestamptz)
  from public, anon, authenticated;
grant execute on function api.cancel_change(bytea, text, text, uuid, uuid, timestamptz) to service_role;

-- app.enter_alive: the caller's vault, locked, for an act that only the living owner may do ---------------------
-- Not brought up to date: whoever shows themselves at the last moment must not be told that they were late.
create function app.enter_alive(p_vault_id uuid, p_key_hash bytea, p_subject text, p_email text)
returns app.vault_visit
language plpgsql
set search_path = ''
as $$
declare
  v_visit app.vault_visit;
begin
  v_visit.caller := app.find_vault_caller(p_key_hash, p_subject, p_email, 'vault:check_in');
  if (v_visit.caller).proof = 'key' then
    perform app.refuse('proof_of_life_required');
  end if;
  v_visit.vault := app.lock_vault(v_visit.caller, p_vault_id);
  return v_visit;
end
$$;
revoke execute on function app.enter_alive(uuid, bytea, text, text) from public, anon, authenticated;

-- api.check_in: the owner lives ---------------------------------------------------------------------------------------
-- Ends a release that a missed check-in began; one by a claim or by hand takes a veto. Returns the vault.
create function api.check_in(p_key_hash bytea, p_subject text, p_email text, p_vault_id uuid, p_now timestamptz)
returns jsonb
language plpgsql
security definer
set search_path = ''
set lock_timeout = '5s'
as $$
declare
  v_visit app.vault_visit := app.enter_alive(p_vault_id, p_key_hash, p_subject, p_email);
  v_vault app.vaults := v_visit.vault;
begin
  if v_vault.last_check_in_at < p_now then
    update app.vaults set last_check_in_at = p_now, reminders = 0, reminded_at = null where id = p_vault_id;
    perform app.record_vault(p_vault_id, (v_visit.caller).actor, 'check_in', 'vault', p_vault_id,
      jsonb_build_object('proof', (v_visit.caller).proof), 'vault.checked_in', p_now);
    if v_vault.state = 'releasing' and v_vault.trigger = 'dead_man_switch' then
      perform app.cancel_release(v_vault, 'checked_in', (v_visit.caller).actor, null, p_now);
    end if;
  end if;
  perform app.evaluate_vault(p_vault_id, p_now);
  return app.show_vault(p_vault_id);
end
$$;
revoke execute on function api.check_in(bytea, text, text, uuid, timestamptz) from public, anon, authenticated;
grant execute on function api.check_in(bytea, text, text, uuid, timestamptz) to service_role;

-- api.veto_release: the owner says no ----------------------------------------------------------------------------------
-- Any time before the first pick-up, and to a claim that is still gathering votes. Returns the vault.
create function api.veto_release(
  p_key_hash bytea, p_subject text, p_email text, p_vault_id uuid, p_request_id uuid, p_now timestamptz
)
returns jsonb
language plpgsql
security definer
set search_path = ''
set lock_timeout = '5s'
as $$
declare
  v_visit app.vault_visit := app.enter_alive(p_vault_id, p_key_hash, p_subject, p_email);
  v_vault app.vaults := app.evaluate_vault(p_vault_id, p_now);
  v_claim app.vault_claims;
begin
  if v_vault.last_request_id is not distinct from p_request_id then
    return app.show_vault(p_vault_id);
  elsif v_vault.picked_up_at is not null then
    perform app.refuse('already_picked_up', jsonb_build_object('picked_up_at', app.iso(v_vault.picked_up_at)));
  elsif v_vault.state <> 'active' then
    perform app.cancel_release(v_vault, 'vetoed', (v_visit.caller).actor, p_request_id, p_now);
  else
    select * into v_claim from app.vault_claims where vault_id = p_vault_id and state = 'gathering_votes';
    if not found then
      perform app.refuse('nothing_to_veto');
    end if;
    update app.vaults
       set last_check_in_at = p_now, reminders = 0, reminded_at = null, last_request_id = p_request_id
     where id = p_vault_id;
    perform app.end_claim(v_claim, 'contested', (v_visit.caller).actor, p_now);
  end if;
  perform app.evaluate_vault(p_vault_id, p_now);
  return app.show_vault(p_vault_id);
end
$$;
revoke execute on function api.veto_release(bytea, text, text, uuid, uuid, timestamptz)
  from public, anon, authenticated;
grant execute on function api.veto_release(bytea, text, text, uuid, uuid, timestamptz) to service_role;

-- api.release_vault: the owner releases by hand -------------------------------------------------------------------
create function api.release_vault(
  p_key_hash bytea, p_subject text, p_email text, p_vault_id uuid, p_request_id uuid, p_now timestamptz
)
returns jsonb
language plpgsql
security definer
set search_path = ''
set lock_timeout = '5s'
as $$
declare
  v_visit app.vault_visit := app.enter_vault(p_vault_id, p_key_hash, p_subject, p_email, p_now);
  v_vault app.vaults := v_visit.vault;
begin
  if (v_visit.caller).proof <> 'session' then
    perform app.refuse('session_jwt_required');
  elsif v_vault.last_request_id is not distinct from p_request_id then
    return app.show_vault(p_vault_id);
  end if;
  perform app.require_state(v_vault, array['active']);
  if not app.has_heir(p_vault_id) then
    perform app.refuse('no_confirmed_heir');
  end if;
  perform app.begin_release(
    v_vault, 'manual', null, v_vault.manual_window_hours, (v_visit.caller).actor, p_request_id, p_now);
  perform app.evaluate_vault(p_vault_id, p_now);
  return app.show_vault(p_vault_id);
end
$$;
revoke execute on function api.release_vault(bytea, text, text, uuid, uuid, timestamptz)
  from public, anon, authenticated;
grant execute on function api.release_vault(bytea, text, text, uuid, uuid, timestamptz) to service_role;

-- api.rearm_vault: released → active, with new keys ------------------------------------------------------------------
-- `p_key_epoch` is the next one, and there is a new share for everybody who holds one. Whatever was wrapped before is
-- burnt; the record of the release stays in the ledger.
create function api.rearm_vault(
  p_key_hash bytea, p_subject text, p_email text, p_vault_id uuid, p_request_id uuid, p_key_epoch int,
  p_person_ids uuid[], p_wrapped_shares text[], p_now timestamptz
)
returns jsonb
language plpgsql
security definer
set search_path = ''
set lock_timeout = '5s'
as $$
declare
  v_visit app.vault_visit := app.enter_vault(p_vault_id, p_key_hash, p_subject, p_email, p_now);
  v_old app.vaults := v_visit.vault;
  v_vault app.vaults := v_visit.vault;
  v_missing jsonb;
begin
  if (v_visit.caller).proof <> 'session' then
    perform app.refuse('session_jwt_required');
  elsif v_vault.last_request_id is not distinct from p_request_id then
    return app.show_vault(p_vault_id);
  end if;
  perform app.require_state(v_vault, array['released']);
  if p_key_epoch <> v_vault.key_epoch + 1 then
    perform app.refuse('invalid_field:key_epoch', jsonb_build_object('expected', v_vault.key_epoch + 1));
  end if;
  select jsonb_agg(p.id order by p.id) into v_missing from app.vault_people p
   where p.vault_id = p_vault_id and p.wrapped_share is not null and p.id <> all (p_person_ids);
  if v_missing is not null or exists (
    select from unnest(p_person_ids) i where not exists (
      select from app.vault_people p where p.id = i and p.vault_id = p_vault_id and p.wrapped_share is not null)) then
    perform app.refuse('incomplete_shares', jsonb_build_object('missing', coalesce(v_missing, '[]')));
  end if;
  update app.vault_people p
     set wrapped_share = s.share, picked_up_at = null
    from unnest(p_person_ids, p_wrapped_shares) s (id, share) where p.id = s.id and p.vault_id = p_vault_id;
  update app.vault_people set picked_up_at = null where vault_id = p_vault_id and picked_up_at is not null;
  delete from app.vault_asset_keys k using app.vault_assets a where a.id = k.asset_id and a.vault_id = p_vault_id;
  v_vault.state := 'active';
  v_vault.key_epoch := p_key_epoch;
  v_vault.trigger := null;
  v_vault.claim_id := null;
  v_vault.releasing_since := null;
  v_vault.release_at := null;
  v_vault.released_at := null;
  v_vault.picked_up_at := null;
  v_vault.last_check_in_at := p_now;
  v_vault.reminders := 0;
  v_vault.reminded_at := null;
  v_vault.last_request_id := p_request_id;
  v_vault := app.move_vault(v_old, v_vault);
  perform app.record_vault(p_vault_id, (v_visit.caller).actor, 'release.rearm', 'vault', p_vault_id,
    jsonb_build_object('key_epoch', p_key_epoch), 'vault.rearmed', p_now);
  perform app.tell_vault(v_vault, 'vault_rearmed', array['owner', 'guardians'],
    jsonb_build_object('key_epoch', p_key_epoch));
  perform app.evaluate_vault(p_vault_id, p_now);
  return app.show_vault(p_vault_id);
end
$$;
revoke execute on function api.rearm_vault(bytea, text, text, uuid, uuid, int, uuid[], text[], timestamptz)
  from public, anon, authenticated;
grant execute on function api.rearm_vault(bytea, text, text, uuid, uuid, int, uuid[], text[], timestamptz)
  to service_role;
