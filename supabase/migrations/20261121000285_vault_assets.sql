-- Assets: ciphertext that the owner's client made, with its key wrapped for heirs; and the pick-up of a released vault.

-- app.wrap_asset: keys of an asset for heirs -------------------------------------------------------------------------
-- Replaces those that there are for the same heirs.
create function app.wrap_asset(p_vault_id uuid, p_asset_id uuid, p_heir_ids uuid[], p_wrapped_keys text[])
returns void
language plpgsql
set search_path = ''
as $$
declare
  v_unknown jsonb;
begin
  select jsonb_agg(i) into v_unknown from unnest(p_heir_ids) i where not exists (
    select from app.vault_people p
     where p.id = i and p.vault_id = p_vault_id and p.role = 'heir' and p.ended_at is null);
  if v_unknown is not null then
    perform app.refuse('unknown_heir', jsonb_build_object('unknown', v_unknown));
  end if;
  insert into app.vault_asset_keys (asset_id, person_id, wrapped_key)
  select p_asset_id, w.id, w.key from unnest(p_heir_ids, p_wrapped_keys) w (id, key)
  on conflict (asset_id, person_id) do update set wrapped_key = excluded.wrapped_key;
end
$$;
revoke execute on function app.wrap_asset(uuid, uuid, uuid[], text[]) from public, anon, authenticated;

-- api.add_asset: one more, under a name that may occur twice --------------------------------------------------------
create function api.add_asset(
  p_key_hash bytea, p_subject text, p_email text, p_vault_id uuid, p_asset_id uuid, p_name text, p_ciphertext bytea,
  p_heir_ids uuid[], p_wrapped_keys text[], p_now timestamptz
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
  v_asset app.vault_assets;
begin
  select * into v_asset from app.vault_assets where id = p_asset_id and vault_id = p_vault_id;
  if not found then
    if (select count(*) from app.vault_assets where vault_id = p_vault_id) >= 100 then
      perform app.refuse('vault_limit_reached', jsonb_build_object('limit', 100, 'of', 'assets'));
    end if;
    insert into app.vault_assets (id, vault_id, name, ciphertext, key_epoch, created_at)
    values (p_asset_id, p_vault_id, p_name, p_ciphertext, (v_visit.vault).key_epoch, p_now) returning * into v_asset;
    perform app.wrap_asset(p_vault_id, p_asset_id, p_heir_ids, p_wrapped_keys);
    perform app.record_vault(p_vault_id, (v_visit.caller).actor, 'asset.add', 'asset', p_asset_id,
      jsonb_build_object('byte_size', octet_length(p_ciphertext)), null, p_now);
    perform app.evaluate_vault(p_vault_id, p_now);
  end if;
  return app.show_asset(v_asset);
end
$$;
revoke execute on function api.add_asset(
  bytea, text, text, uuid, uuid, text, bytea, uuid[], text[], timestamptz) from public, anon, authenticated;
grant execute on function api.add_asset(
  bytea, text, text, uuid, uuid, text, bytea, uuid[], text[], timestamptz) to service_role;

-- app.find_asset: an asset of a vault, without its bytes -------------------------------------------------------------
create function app.find_asset(p_vault_id uuid, p_asset_id uuid)
returns app.vault_assets
language plpgsql
stable
set search_path = ''
as $$
declare
  v_asset app.vault_assets;
begin
  select * into v_asset from app.vault_assets where id = p_asset_id and vault_id = p_vault_id;
  if not found then
    perform app.refuse('asset_not_found');
  end if;
  return v_asset;
end
$$;
revoke execute on function app.find_asset(uuid, uuid) from public, anon, authenticated;

-- api.wrap_asset: keys of an asset for heirs who came later -------------------------------------------------------
create function api.wrap_asset(
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
begin
  if v_asset.key_epoch <> (v_visit.vault).key_epoch then
    perform app.refuse('stale_asset', jsonb_build_object('key_epoch', (v_visit.vault).key_epoch));
  end if;
  perform app.wrap_asset(p_vault_id, p_asset_id, p_heir_ids, p_wrapped_keys);
  perform app.record_vault(p_vault_id, (v_visit.caller).actor, 'asset.wrap', 'asset', p_asset_id,
    jsonb_build_object('heirs', cardinality(p_heir_ids)), null, p_now);
  perform app.evaluate_vault(p_vault_id, p_now);
  return app.show_asset(v_asset);
end
$$;
revoke execute on function api.wrap_asset(bytea, text, text, uuid, uuid, uuid[], text[], timestamptz)
  from public, anon, authenticated;
grant execute on function api.wrap_asset(bytea, text, text, uuid, uuid, uuid[], text[], timestamptz) to service_role;

-- api.read_asset: one of them with its ciphertext, for the owner ------------------------------------------------
create function api.read_asset(
  p_key_hash bytea, p_subject text, p_email text, p_vault_id uuid, p_asset_id uuid, p_now timestamptz
)
returns table (asset jsonb, ciphertext bytea)
language plpgsql
security definer
set search_path = ''
set lock_timeout = '5s'
as $$
declare
  v_asset app.vault_assets;
begin
  perform app.enter_vault(p_vault_id, p_key_hash, p_subject, p_email, p_now);
  v_asset := app.find_asset(p_vault_id, p_asset_id);
  return query select app.show_asset(v_asset), v_asset.ciphertext;
end
$$;
revoke execute on function api.read_asset(bytea, text, text, uuid, uuid, timestamptz)
  from public, anon, authenticated;
grant execute on function api.read_asset(bytea, text, text, uuid, uuid, timestamptz) to service_role;

-- api.remove_asset: gone, for good, unless a release runs ---------------------------------------------------------
create function api.remove_asset(
  p_key_hash bytea, p_subject text, p_email text, p_vault_id uuid, p_asset_id uuid, p_now timestamptz
)
returns jsonb
language plpgsql
security definer
set search_path = ''
set lock_timeout = '5s'
as $$
declare
  v_visit app.vault_visit := app.enter_vault(p_vault_id, p_key_hash, p_subject, p_email, p_now, array['active']);
begin
  delete from app.vault_assets where id = p_asset_id and vault_id = p_vault_id;
  if found then
    perform app.record_vault(
      p_vault_id, (v_visit.caller).actor, 'asset.remove', 'asset', p_asset_id, '{}', null, p_now);
  elsif not exists (
    select from app.vault_audit_entries
     where vault_id = p_vault_id and action = 'asset.remove' and resource_id = p_asset_id::text) then
    perform app.refuse('asset_not_found');
  end if;
  return jsonb_build_object('id', p_asset_id, 'status', 'removed');
end
$$;
revoke execute on function api.remove_asset(bytea, text, text, uuid, uuid, timestamptz)
  from public, anon, authenticated;
grant execute on function api.remove_asset(bytea, text, text, uuid, uuid, timestamptz) to service_role;

-- app.enter_heir: a confirmed heir of a released vault; their first pick-up is recorded ------------------------
-- From the first pick-up of anybody on, nothing can be vetoed any more: both hold the vault's lock.
create function app.enter_heir(p_vault_id uuid, p_token_hash bytea, p_now timestamptz)
returns app.vault_guest
language plpgsql
set search_path = ''
as $$
declare
  v_guest app.vault_guest := app.enter_by_token(p_vault_id, p_token_hash, p_now);
  v_person app.vault_people := v_guest.person;
begin
  if v_person.role <> 'heir' then
    perform app.refuse('forbidden_person', jsonb_build_object('role', v_person.role));
  elsif v_person.status <> 'confirmed' then
    perform app.refuse('forbidden_person', jsonb_build_object('status', v_person.status));
  elsif (v_guest.vault).state <> 'released' then
    perform app.refuse('not_released');
  elsif v_person.picked_up_at is null then
    update app.vault_people set picked_up_at = p_now where id = v_person.id;
    update app.vaults set picked_up_at = coalesce(picked_up_at, p_now) where id = p_vault_id and state = 'released';
    perform app.record_vault(p_vault_id, 'heir:' || v_person.id, 'release.pick_up', 'person', v_person.id,
      jsonb_build_object('key_epoch', (v_guest.vault).key_epoch), 'vault.picked_up', p_now);
    perform app.tell_vault(v_guest.vault, 'vault_picked_up', array['owner'],
      jsonb_build_object('person', v_person.name));
  end if;
  return v_guest;
end
$$;
revoke execute on function app.enter_heir(uuid, bytea, timestamptz) from public, anon, authenticated;

-- api.pick_up_vault: what a confirmed heir gets -------------------------------------------------------------------
-- Their wrapped keys, and every share of people who are in: those of others are of use only to whoever holds the
-- private key that each is wrapped for.
create function api.pick_up_vault(p_vault_id uuid, p_token_hash bytea, p_now timestamptz)
returns jsonb
language plpgsql
security definer
set search_path = ''
set lock_timeout = '5s'
as $$
declare
  v_guest app.vault_guest := app.enter_heir(p_vault_id, p_token_hash, p_now);
  v_vault app.vaults := v_guest.vault;
begin
  return jsonb_build_object(
    'vault_id', p_vault_id, 'vault_name', v_vault.name, 'person_id', (v_guest.person).id,
    'public_key', (v_guest.person).public_key, 'key_epoch', v_vault.key_epoch, 'sss_preset', v_vault.sss_preset,
    'threshold', app.vault_threshold(v_vault.sss_preset), 'released_at', app.iso(v_vault.released_at),
    'shares', coalesce((
      select jsonb_agg(jsonb_build_object('person_id', p.id, 'role', p.role, 'name', p.name, 'email', p.email,
               'public_key', p.public_key, 'wrapped_share', p.wrapped_share) order by p.created_at, p.id)
        from app.vault_people p
       where p.vault_id = p_vault_id and p.status = 'confirmed' and p.wrapped_share is not null), '[]'),
    'assets', coalesce((
      select jsonb_agg(app.show_asset(a) - 'wrapped_for' || jsonb_build_object('wrapped_key', k.wrapped_key)
               order by a.created_at, a.id)
        from app.vault_assets a
        left join app.vault_asset_keys k on k.asset_id = a.id and k.person_id = (v_guest.person).id
       where a.vault_id = p_vault_id and a.key_epoch = v_vault.key_epoch), '[]'));
end
$$;
revoke execute on function api.pick_up_vault(uuid, bytea, timestamptz) from public, anon, authenticated;
grant execute on function api.pick_up_vault(uuid, bytea, timestamptz) to service_role;

-- api.pick_up_asset: the ciphertext of one ----------------------------------------------------------------------------
create function api.pick_up_asset(p_vault_id uuid, p_token_hash bytea, p_asset_id uuid, p_now timestamptz)
returns table (asset jsonb, ciphertext bytea)
language plpgsql
security definer
set search_path = ''
set lock_timeout = '5s'
as $$
declare
  v_guest app.vault_guest := app.enter_heir(p_vault_id, p_token_hash, p_now);
  v_asset app.vault_assets := app.find_asset(p_vault_id, p_asset_id);
begin
  if v_asset.key_epoch <> (v_guest.vault).key_epoch then
    perform app.refuse('asset_not_found');
  end if;
  return query select app.show_asset(v_asset) - 'wrapped_for' || jsonb_build_object('wrapped_key', (
    select k.wrapped_key from app.vault_asset_keys k
     where k.asset_id = p_asset_id and k.person_id = (v_guest.person).id)), v_asset.ciphertext;
end
$$;
revoke execute on function api.pick_up_asset(uuid, bytea, uuid, timestamptz) from public, anon, authenticated;
grant execute on function api.pick_up_asset(uuid, bytea, uuid, timestamptz) to service_role;
