-- Acts on a vault that are told twice, because the answer to the first time was lost, are done once: what would change
-- nothing is not written into the ledger, and nobody is mailed twice.

-- api.resend_invitation: as before, but a mail that has yet to go out is not queued a second time --------------
create or replace function api.resend_invitation(
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
  -- Held, so that no worker takes it while we count on it. Its token is made when it is sent.
  perform 1 from app.mail_outbox
   where subject_id = p_person_id and kind = 'vault_invitation' and recipient = v_person.email
     and attempts = 0 and sent_at is null and given_up_at is null
     for no key update skip locked;
  if not found then
    perform app.invite_person(v_person);
    perform app.record_vault(p_vault_id, (v_visit.caller).actor, p_role || '.resend', 'person', p_person_id,
      jsonb_build_object('role', p_role, 'status', v_person.status), null, p_now);
  end if;
  perform app.evaluate_vault(p_vault_id, p_now);
  return app.show_person(v_person);
end
$$;
revoke execute on function api.resend_invitation(bytea, text, text, uuid, text, uuid, timestamptz)
  from public, anon, authenticated;
grant execute on function api.resend_invitation(bytea, text, text, uuid, text, uuid, timestamptz) to service_role;

-- api.configure_vault: as before, but settings that are already so are no event ---------------------------------
create or replace function api.configure_vault(
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
  v_replaces boolean;
  v_vault app.vaults;
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
  v_replaces := found;
  if app.is_weaker(v_visit.vault, v_change) then
    perform app.queue_change(v_visit, v_change, p_now);
  else
    perform app.apply_settings(v_change, p_now);
    select * into v_vault from app.vaults where id = p_vault_id;
    if v_replaces or v_vault is distinct from v_visit.vault then
      perform app.record_vault(p_vault_id, (v_visit.caller).actor, 'release.configure', 'vault', p_vault_id,
        jsonb_build_object('trigger', p_trigger, 'enabled', p_enabled, 'check_in_interval_days', p_interval_days,
          'grace_days', p_grace_days, 'veto_window_hours', p_window_hours, 'quorum', p_quorum), null, p_now);
    end if;
  end if;
  perform app.evaluate_vault(p_vault_id, p_now);
  return app.show_vault(p_vault_id);
end
$$;
revoke execute on function api.configure_vault(
  bytea, text, text, uuid, uuid, text, boolean, int, int, int, int, timestamptz) from public, anon, authenticated;
grant execute on function api.configure_vault(
  bytea, text, text, uuid, uuid, text, boolean, int, int, int, int, timestamptz) to service_role;

-- api.wrap_asset: as before, but keys that are already there are no event ---------------------------------------
create or replace function api.wrap_asset(
  p_key_hash bytea, p_subject text, p_email text, p_vault_id uuid, p_asset_id uuid, p_heir_ids uuid[],
  p_wrapped_keys text[], p_now timestamptz
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
  v_asset app.vault_assets := app.find_asset(p_vault_id, p_asset_id);
  v_is_new boolean;
begin
  if v_asset.key_epoch <> (v_visit.vault).key_epoch then
    perform app.refuse('stale_asset', jsonb_build_object('key_epoch', (v_visit.vault).key_epoch));
  end if;
  v_is_new := exists (
    select w.id, w.key from unnest(p_heir_ids, p_wrapped_keys) w (id, key)
    except
    select person_id, wrapped_key from app.vault_asset_keys where asset_id = p_asset_id);
  perform app.wrap_asset(p_vault_id, p_asset_id, p_heir_ids, p_wrapped_keys);
  if v_is_new then
    perform app.record_vault(p_vault_id, (v_visit.caller).actor, 'asset.wrap', 'asset', p_asset_id,
      jsonb_build_object('heirs', cardinality(p_heir_ids)), null, p_now);
  end if;
  perform app.evaluate_vault(p_vault_id, p_now);
  return app.show_asset(v_asset);
end
$$;
revoke execute on function api.wrap_asset(bytea, text, text, uuid, uuid, uuid[], text[], timestamptz)
  from public, anon, authenticated;
grant execute on function api.wrap_asset(bytea, text, text, uuid, uuid, uuid[], text[], timestamptz) to service_role;
