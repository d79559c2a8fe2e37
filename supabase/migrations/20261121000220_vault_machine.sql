-- The vault's machine: what time alone does, and the transitions.
--
-- Every transition is one conditional update (of the state and version that it starts from), one entry in the
-- ledger, one event for webhooks and mail to those concerned. `app.evaluate_vault` brings a vault up to a moment; it
-- runs before every read and act and, for vaults that nobody looks at, by the job. Callers hold the vault's lock.

-- app.move_vault: one transition ----------------------------------------------------------------------------------
create function app.move_vault(p_from app.vaults, p_to app.vaults)
returns app.vaults
language plpgsql
set search_path = ''
as $$
declare
  v_vault app.vaults;
begin
  update app.vaults
     set state = p_to.state, version = p_from.version + 1, key_epoch = p_to.key_epoch, trigger = p_to.trigger,
         claim_id = p_to.claim_id, releasing_since = p_to.releasing_since, release_at = p_to.release_at,
         blocked_since = p_to.blocked_since, released_at = p_to.released_at, picked_up_at = p_to.picked_up_at,
         last_check_in_at = p_to.last_check_in_at, reminders = p_to.reminders, reminded_at = p_to.reminded_at,
         last_request_id = p_to.last_request_id
   where id = p_from.id and state = p_from.state and version = p_from.version
  returning * into v_vault;
  if not found then
    -- Nobody gets here who holds the lock; whoever did not is asked to try again.
    raise exception using errcode = '40001', message = 'the vault has moved on';
  end if;
  return v_vault;
end
$$;
revoke execute on function app.move_vault(app.vaults, app.vaults) from public, anon, authenticated;

-- app.has_heir: is there anybody to release to? ------------------------------------------------------------------
create function app.has_heir(p_vault_id uuid)
returns boolean
language sql
stable
set search_path = ''
as $$
  select exists (select from app.vault_people where vault_id = p_vault_id and role = 'heir' and status = 'confirmed')
$$;
revoke execute on function app.has_heir(uuid) from public, anon, authenticated;

-- app.can_release: would a confirmed heir be able to open anything? ---------------------------------------------
-- Where shares are kept, enough of them must be with people who are confirmed. Without any, an asset's key must be
-- wrapped for a confirmed heir.
create function app.can_release(p_vault app.vaults)
returns boolean
language sql
stable
set search_path = ''
as $$
  select app.has_heir(p_vault.id) and case
    when exists (select from app.vault_people where vault_id = p_vault.id and wrapped_share is not null) then
      app.vault_threshold(p_vault.sss_preset) <= (
        select count(*) from app.vault_people
         where vault_id = p_vault.id and status = 'confirmed' and wrapped_share is not null)
    else exists (
      select from app.vault_asset_keys k join app.vault_people p on p.id = k.person_id
       where p.vault_id = p_vault.id and p.role = 'heir' and p.status = 'confirmed')
  end
$$;
revoke execute on function app.can_release(app.vaults) from public, anon, authenticated;

-- app.begin_release: active → releasing -------------------------------------------------------------------------
-- The window is counted from now, however late anybody looked, and is fixed here.
create function app.begin_release(
  p_vault app.vaults, p_trigger text, p_claim_id uuid, p_window_hours int, p_actor text, p_request_id uuid,
  p_now timestamptz
)
returns app.vaults
language plpgsql
set search_path = ''
as $$
declare
  v_vault app.vaults := p_vault;
begin
  v_vault.state := 'releasing';
  v_vault.trigger := p_trigger;
  v_vault.claim_id := p_claim_id;
  v_vault.releasing_since := p_now;
  v_vault.release_at := p_now + make_interval(hours => p_window_hours);
  v_vault.last_request_id := coalesce(p_request_id, p_vault.last_request_id);
  v_vault := app.move_vault(p_vault, v_vault);
  perform app.record_vault(v_vault.id, p_actor, 'release.begin', 'vault', v_vault.id, jsonb_build_object(
    'trigger', p_trigger, 'release_at', app.iso(v_vault.release_at), 'claim_id', p_claim_id),
    'vault.releasing', p_now);
  perform app.tell_vault(v_vault, 'vault_releasing', array['owner', 'guardians'], jsonb_build_object(
    'trigger', p_trigger, 'release_at', app.iso(v_vault.release_at)));
  return v_vault;
end
$$;
revoke execute on function app.begin_release(app.vaults, text, uuid, int, text, uuid, timestamptz)
  from public, anon, authenticated;

-- app.complete_release: releasing → released --------------------------------------------------------------------
create function app.complete_release(p_vault app.vaults, p_now timestamptz)
returns app.vaults
language plpgsql
set search_path = ''
as $$
declare
  v_vault app.vaults := p_vault;
begin
  v_vault.state := 'released';
  v_vault.released_at := p_now;
  v_vault.blocked_since := null;
  v_vault := app.move_vault(p_vault, v_vault);
  perform app.record_vault(v_vault.id, 'service', 'release.complete', 'vault', v_vault.id,
    jsonb_build_object('trigger', v_vault.trigger, 'key_epoch', v_vault.key_epoch), 'vault.released', p_now);
  perform app.tell_vault(v_vault, 'vault_released', array['heirs'], '{}');
  perform app.tell_vault(v_vault, 'vault_released_notice', array['owner', 'guardians'],
    jsonb_build_object('released_at', app.iso(p_now)));
  return v_vault;
end
$$;
revoke execute on function app.complete_release(app.vaults, timestamptz) from public, anon, authenticated;

-- app.block_release: releasing → releasing, as there is nobody to release to ------------------------------------
create function app.block_release(p_vault app.vaults, p_now timestamptz)
returns app.vaults
language plpgsql
set search_path = ''
as $$
declare
  v_vault app.vaults := p_vault;
  v_reason text := case when app.has_heir(p_vault.id) then 'nothing_to_open' else 'no_confirmed_heir' end;
begin
  v_vault.blocked_since := p_now;
  v_vault := app.move_vault(p_vault, v_vault);
  perform app.record_vault(v_vault.id, 'service', 'release.block', 'vault', v_vault.id,
    jsonb_build_object('reason', v_reason), 'vault.release_blocked', p_now);
  perform app.tell_vault(v_vault, 'vault_release_blocked', array['owner', 'guardians'],
    jsonb_build_object('reason', v_reason));
  return v_vault;
end
$$;
revoke execute on function app.block_release(app.vaults, timestamptz) from public, anon, authenticated;

-- app.end_claim: a claim comes to nothing, and its maker has to wait --------------------------------------------
-- The wait doubles each time that the owner or the other guardians were against it.
create function app.end_claim(p_claim app.vault_claims, p_state text, p_actor text, p_now timestamptz)
returns void
language plpgsql
set search_path = ''
as $$
begin
  update app.vault_claims set state = p_state, ended_at = p_now where id = p_claim.id and state = p_claim.state;
  update app.vault_people
     set cooldown_until = p_now + make_interval(days => cooldown_days),
         cooldown_days = case when p_state = 'contested' then least(cooldown_days * 2, 365) else cooldown_days end
   where id = p_claim.person_id;
  perform app.record_vault(p_claim.vault_id, p_actor, 'claim.' || p_state, 'claim', p_claim.id, '{}',
    'vault.claim_updated', p_now);
  perform app.tell_vault(v, 'vault_claim_ended', array['owner', 'guardians'], jsonb_build_object('outcome', p_state))
    from app.vaults v where v.id = p_claim.vault_id;
end
$$;
revoke execute on function app.end_claim(app.vault_claims, text, text, timestamptz) from public, anon, authenticated;

-- app.cancel_release: releasing, or released and not picked up → active -----------------------------------------
-- `p_cause` is `vetoed`, `checked_in` or `contested`; the first two prove that the owner lives.
create function app.cancel_release(
  p_vault app.vaults, p_cause text, p_actor text, p_request_id uuid, p_now timestamptz
)
returns app.vaults
language plpgsql
set search_path = ''
as $$
declare
  v_vault app.vaults := p_vault;
begin
  v_vault.state := 'active';
  v_vault.trigger := null;
  v_vault.claim_id := null;
  v_vault.releasing_since := null;
  v_vault.release_at := null;
  v_vault.blocked_since := null;
  v_vault.released_at := null;
  v_vault.last_request_id := coalesce(p_request_id, p_vault.last_request_id);
  if p_cause <> 'contested' then
    v_vault.last_check_in_at := p_now;
    v_vault.reminders := 0;
    v_vault.reminded_at := null;
  end if;
  v_vault := app.move_vault(p_vault, v_vault);
  perform app.record_vault(v_vault.id, p_actor, 'release.cancel', 'vault', v_vault.id,
    jsonb_build_object('cause', p_cause, 'trigger', p_vault.trigger), 'vault.release_canceled', p_now);
  -- Heirs know of it only when they were told that it is released.
  perform app.tell_vault(v_vault, 'vault_release_canceled',
    array['owner', 'guardians', case p_vault.state when 'released' then 'heirs' end],
    jsonb_build_object('cause', p_cause));
  perform app.end_claim(c, 'contested', p_actor, p_now) from app.vault_claims c where c.id = p_vault.claim_id;
  return v_vault;
end
$$;
revoke execute on function app.cancel_release(app.vaults, text, text, uuid, timestamptz)
  from public, anon, authenticated;

-- app.end_person: somebody is out, and what was wrapped for them is gone ----------------------------------------
create function app.end_person(p_person app.vault_people, p_status text, p_actor text, p_now timestamptz)
returns void
language plpgsql
set search_path = ''
as $$
begin
  update app.vault_people
     set status = p_status, ended_at = p_now, wrapped_share = null
   where id = p_person.id and status = p_person.status;
  delete from app.vault_asset_keys where person_id = p_person.id;
  delete from app.vault_tokens where person_id = p_person.id;
  -- What they voted while a claim is open no longer counts.
  delete from app.vault_votes o using app.vault_claims c
   where o.person_id = p_person.id and c.id = o.claim_id and c.state = 'gathering_votes';
  update app.vault_changes set state = 'canceled'
   where person_id = p_person.id and state = 'pending' and p_status <> 'removed';
  perform app.record_vault(p_person.vault_id, p_actor, p_person.role || '.' || p_status, 'person', p_person.id,
    jsonb_build_object('role', p_person.role, 'status', p_status), 'vault.person_updated', p_now);
  if p_status in ('declined', 'expired') then
    perform app.tell_vault(v, 'vault_person_left', array['owner'], jsonb_build_object(
      'person', p_person.name, 'role', p_person.role, 'status', p_status))
      from app.vaults v where v.id = p_person.vault_id;
  end if;
end
$$;
revoke execute on function app.end_person(app.vault_people, text, text, timestamptz)
  from public, anon, authenticated;

-- app.apply_settings: a trigger's settings; null ones stay ------------------------------------------------------
-- Nothing here touches a release that runs: its `release_at` is fixed.
create function app.apply_settings(p_change app.vault_changes, p_now timestamptz)
returns void
language sql
set search_path = ''
as $$
  update app.vaults
     set switch_since = case
           when p_change.trigger = 'dead_man_switch' and p_change.enabled and not switch_enabled then p_now
           else switch_since end,
         switch_enabled = case p_change.trigger
           when 'dead_man_switch' then coalesce(p_change.enabled, switch_enabled) else switch_enabled end,
         switch_interval_days = coalesce(p_change.interval_days, switch_interval_days),
         switch_grace_days = coalesce(p_change.grace_days, switch_grace_days),
         switch_window_hours = case p_change.trigger
           when 'dead_man_switch' then coalesce(p_change.window_hours, switch_window_hours)
           else switch_window_hours end,
         manual_window_hours = case p_change.trigger
           when 'manual' then coalesce(p_change.window_hours, manual_window_hours) else manual_window_hours end,
         claim_enabled = case p_change.trigger
           when 'guardian_claim' then coalesce(p_change.enabled, claim_enabled) else claim_enabled end,
         claim_quorum = coalesce(p_change.quorum, claim_quorum),
         claim_window_hours = case p_change.trigger
           when 'guardian_claim' then coalesce(p_change.window_hours, claim_window_hours)
           else claim_window_hours end
   where id = p_change.vault_id
$$;
revoke execute on function app.apply_settings(app.vault_changes, timestamptz) from public, anon, authenticated;

-- app.execute_change: a change that has waited long enough ------------------------------------------------------
create function app.execute_change(p_change app.vault_changes, p_now timestamptz)
returns void
language plpgsql
set search_path = ''
as $$
begin
  update app.vault_changes set state = 'done' where id = p_change.id and state = 'pending';
  if p_change.kind = 'configure' then
    perform app.apply_settings(p_change, p_now);
  else
    perform app.end_person(p, 'removed', 'service', p_now)
      from app.vault_people p where p.id = p_change.person_id and p.ended_at is null;
  end if;
  perform app.record_vault(p_change.vault_id, 'service', 'change.done', 'change', p_change.id,
    jsonb_build_object('kind', p_change.kind, 'trigger', p_change.trigger), 'vault.change_updated', p_now);
  perform app.tell_vault(v, 'vault_change_done', array['owner'], jsonb_build_object('change', p_change.kind))
    from app.vaults v where v.id = p_change.vault_id;
end
$$;
revoke execute on function app.execute_change(app.vault_changes, timestamptz) from public, anon, authenticated;
