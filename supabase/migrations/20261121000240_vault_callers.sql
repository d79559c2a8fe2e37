-- Who comes to a vault, and what they are shown.
--
-- The owner comes with a session, an ordinary API key or a key that may check in; heirs and guardians with a token
-- from a mail. A vault of somebody else's is like one that does not exist. Spec 2.12, 4.9 and 5.

-- Who acts. `proof` is `session` (signed in), `check_in` (a key with that scope) or `key` (proves nothing of life).
create type app.vault_caller as (account_id uuid, actor text, proof text);

-- app.find_vault_caller: the owner, by a session or by a key -----------------------------------------------------
create function app.find_vault_caller(p_key_hash bytea, p_subject text, p_email text, p_scope text)
returns app.vault_caller
language plpgsql
set search_path = ''
as $$
declare
  v_key app.api_keys;
begin
  if p_key_hash is null then
    return row(app.open_user(p_subject, p_email), p_subject, 'session')::app.vault_caller;
  end if;
  select * into v_key from app.api_keys where key_hash = p_key_hash;
  if not found then
    perform app.refuse('invalid_api_key');
  elsif v_key.revoked_at is not null then
    perform app.refuse('api_key_revoked');
  elsif v_key.account_id is null then
    perform app.refuse('owner_not_found');
  elsif v_key.team_id is not null then
    perform app.refuse('user_key_required');
  elsif v_key.scopes is not null and p_scope is null then
    perform app.refuse('forbidden_scope', jsonb_build_object('scopes', v_key.scopes));
  end if;
  perform app.touch_key(v_key.id);
  return row(
    v_key.account_id, coalesce((select subject from app.accounts where id = v_key.account_id), 'owner'),
    case when p_scope = any (v_key.scopes) then 'check_in' else 'key' end)::app.vault_caller;
end
$$;
revoke execute on function app.find_vault_caller(bytea, text, text, text) from public, anon, authenticated;

-- app.lock_vault: a vault of the caller's, locked -----------------------------------------------------------------
create function app.lock_vault(p_caller app.vault_caller, p_vault_id uuid)
returns app.vaults
language plpgsql
set search_path = ''
as $$
declare
  v_vault app.vaults;
begin
  select * into v_vault from app.vaults
   where id = p_vault_id and account_id = p_caller.account_id for no key update;
  if not found then
    perform app.refuse('vault_not_found');
  end if;
  return v_vault;
end
$$;
revoke execute on function app.lock_vault(app.vault_caller, uuid) from public, anon, authenticated;

-- A vault, up to date and locked, with who acts on it.
create type app.vault_visit as (caller app.vault_caller, vault app.vaults);

-- app.require_state: the act is not for every state --------------------------------------------------------------
create function app.require_state(p_vault app.vaults, p_states text[])
returns void
language plpgsql
immutable
set search_path = ''
as $$
begin
  if p_vault.state <> all (p_states) then
    perform app.refuse('wrong_vault_state', jsonb_build_object('state', p_vault.state, 'allowed', p_states));
  end if;
end
$$;
revoke execute on function app.require_state(app.vaults, text[]) from public, anon, authenticated;

-- app.enter_vault: the caller's vault as it is now, in one of the states that the act is for -------------------
create function app.enter_vault(
  p_vault_id uuid, p_key_hash bytea, p_subject text, p_email text, p_now timestamptz, p_states text[] default null
)
returns app.vault_visit
language plpgsql
set search_path = ''
as $$
declare
  v_visit app.vault_visit;
begin
  v_visit.caller := app.find_vault_caller(p_key_hash, p_subject, p_email, null);
  perform app.lock_vault(v_visit.caller, p_vault_id);
  v_visit.vault := app.evaluate_vault(p_vault_id, p_now);
  if p_states is not null then
    perform app.require_state(v_visit.vault, p_states);
  end if;
  return v_visit;
end
$$;
revoke execute on function app.enter_vault(uuid, bytea, text, text, timestamptz, text[])
  from public, anon, authenticated;

-- Somebody who came with a token, and the vault that it is for.
create type app.vault_guest as (person app.vault_people, vault app.vaults);

-- app.enter_by_token: an heir or guardian, and their vault as it is now, locked ---------------------------------
-- Without `p_vault_id` the token says which vault. Whatever is wrong with a token looks the same.
create function app.enter_by_token(p_vault_id uuid, p_token_hash bytea, p_now timestamptz)
returns app.vault_guest
language plpgsql
set search_path = ''
as $$
declare
  v_guest app.vault_guest;
  v_person app.vault_people;
begin
  select p.* into v_person
    from app.vault_tokens t join app.vault_people p on p.id = t.person_id where t.token_hash = p_token_hash;
  if not found or v_person.vault_id <> coalesce(p_vault_id, v_person.vault_id) then
    perform app.refuse('invitation_not_found');
  end if;
  perform 1 from app.vaults where id = v_person.vault_id for no key update;
  v_guest.vault := app.evaluate_vault(v_person.vault_id, p_now);
  -- Under the lock: they may have been removed meanwhile, or come too late.
  select * into v_person from app.vault_people where id = v_person.id and ended_at is null;
  if not found then
    perform app.refuse('invitation_not_found');
  end if;
  v_guest.person := v_person;
  return v_guest;
end
$$;
revoke execute on function app.enter_by_token(uuid, bytea, timestamptz) from public, anon, authenticated;

-- app.show_person: an heir or guardian as the owner sees them (spec 2.12) ---------------------------------------
create function app.show_person(p_person app.vault_people)
returns jsonb
language sql
stable
set search_path = ''
as $$
  select jsonb_build_object(
      'id', p_person.id, 'name', p_person.name, 'email', p_person.email, 'status', p_person.status,
      'public_key', p_person.public_key, 'has_share', p_person.wrapped_share is not null,
      'expires_at', case when p_person.status = 'pending' then app.iso(p_person.expires_at) end,
      'accepted_at', app.iso(p_person.accepted_at), 'confirmed_at', app.iso(p_person.confirmed_at),
      'created_at', app.iso(p_person.created_at))
    || case when p_person.wallet_address is null then '{}'
         else jsonb_build_object('walletAddress', p_person.wallet_address) end
    || case p_person.role when 'heir' then jsonb_build_object('picked_up_at', app.iso(p_person.picked_up_at))
         else jsonb_build_object('cooldown_until', app.iso(p_person.cooldown_until)) end
$$;
revoke execute on function app.show_person(app.vault_people) from public, anon, authenticated;

-- app.show_change: a change that waits ----------------------------------------------------------------------------
create function app.show_change(p_change app.vault_changes)
returns jsonb
language sql
stable
set search_path = ''
as $$
  select jsonb_strip_nulls(jsonb_build_object(
    'id', p_change.id, 'kind', p_change.kind, 'person_id', p_change.person_id, 'trigger', p_change.trigger,
    'requested_at', app.iso(p_change.requested_at), 'executes_at', app.iso(p_change.executes_at),
    'needs_check_in', not p_change.proven))
$$;
revoke execute on function app.show_change(app.vault_changes) from public, anon, authenticated;

-- app.show_claim: a claim with its votes --------------------------------------------------------------------------
create function app.show_claim(p_claim app.vault_claims)
returns jsonb
language sql
stable
set search_path = ''
as $$
  select jsonb_build_object(
    'id', p_claim.id, 'claimant_id', p_claim.person_id, 'state', p_claim.state, 'reason', p_claim.reason,
    'quorum', p_claim.quorum,
    'concur', (select count(*) from app.vault_votes where claim_id = p_claim.id and vote = 'concur'),
    'reject', (select count(*) from app.vault_votes where claim_id = p_claim.id and vote = 'reject'),
    'created_at', app.iso(p_claim.created_at), 'expires_at', app.iso(p_claim.expires_at))
$$;
revoke execute on function app.show_claim(app.vault_claims) from public, anon, authenticated;

-- app.show_release: the configuration and how far a release has come --------------------------------------------
create function app.show_release(p_vault app.vaults)
returns jsonb
language sql
stable
set search_path = ''
as $$
  select jsonb_build_object(
    'config', jsonb_build_object(
      'dead_man_switch', jsonb_build_object(
        'enabled', p_vault.switch_enabled, 'check_in_interval_days', p_vault.switch_interval_days,
        'grace_days', p_vault.switch_grace_days, 'veto_window_hours', p_vault.switch_window_hours),
      'manual', jsonb_build_object('veto_window_hours', p_vault.manual_window_hours),
      'guardian_claim', jsonb_build_object(
        'enabled', p_vault.claim_enabled, 'quorum', p_vault.claim_quorum,
        'veto_window_hours', p_vault.claim_window_hours)),
    'last_check_in_at', app.iso(p_vault.last_check_in_at),
    'check_in_due_at', case when p_vault.switch_enabled then app.iso(app.vault_due_at(p_vault)) end,
    'deadline', case when p_vault.switch_enabled then app.iso(app.vault_deadline(p_vault)) end,
    'trigger', p_vault.trigger,
    'releasing_since', app.iso(p_vault.releasing_since),
    'release_at', app.iso(p_vault.release_at),
    'blocked_since', app.iso(p_vault.blocked_since),
    'released_at', app.iso(p_vault.released_at),
    'picked_up_at', app.iso(p_vault.picked_up_at))
$$;
revoke execute on function app.show_release(app.vaults) from public, anon, authenticated;

-- app.show_vault_line: a vault in a list --------------------------------------------------------------------------
create function app.show_vault_line(p_vault app.vaults)
returns jsonb
language sql
stable
set search_path = ''
as $$
  select jsonb_build_object(
    'id', p_vault.id, 'name', p_vault.name, 'state', p_vault.state, 'sss_preset', p_vault.sss_preset,
    'threshold', app.vault_threshold(p_vault.sss_preset), 'shares', app.vault_shares(p_vault.sss_preset),
    'key_epoch', p_vault.key_epoch, 'release_at', app.iso(p_vault.release_at),
    'created_at', app.iso(p_vault.created_at))
$$;
revoke execute on function app.show_vault_line(app.vaults) from public, anon, authenticated;

-- app.show_asset: an asset without its ciphertext ------------------------------------------------------------------
create function app.show_asset(p_asset app.vault_assets)
returns jsonb
language sql
stable
set search_path = ''
as $$
  select jsonb_build_object(
    'id', p_asset.id, 'name', p_asset.name, 'byte_size', octet_length(p_asset.ciphertext),
    'key_epoch', p_asset.key_epoch, 'created_at', app.iso(p_asset.created_at),
    'wrapped_for', coalesce((select jsonb_agg(k.person_id order by k.person_id)
      from app.vault_asset_keys k where k.asset_id = p_asset.id), '[]'))
$$;
revoke execute on function app.show_asset(app.vault_assets) from public, anon, authenticated;

-- app.show_vault: all of it but ciphertext and what is wrapped --------------------------------------------------
create function app.show_vault(p_vault_id uuid)
returns jsonb
language sql
stable
set search_path = ''
as $$
  select app.show_vault_line(v) || jsonb_build_object(
    'release', app.show_release(v),
    'heirs', coalesce((select jsonb_agg(app.show_person(p) order by p.created_at, p.id)
      from app.vault_people p where p.vault_id = v.id and p.role = 'heir' and p.status <> 'removed'), '[]'),
    'guardians', coalesce((select jsonb_agg(app.show_person(p) order by p.created_at, p.id)
      from app.vault_people p where p.vault_id = v.id and p.role = 'guardian' and p.status <> 'removed'), '[]'),
    'assets', coalesce((select jsonb_agg(app.show_asset(a) order by a.created_at, a.id)
      from app.vault_assets a where a.vault_id = v.id), '[]'),
    'claim', (select app.show_claim(c) from app.vault_claims c
      where c.vault_id = v.id and (c.state = 'gathering_votes' or c.id = v.claim_id)
      order by c.created_at desc limit 1),
    'pending_changes', coalesce((select jsonb_agg(app.show_change(c) order by c.executes_at, c.id)
      from app.vault_changes c where c.vault_id = v.id and c.state = 'pending'), '[]'))
    from app.vaults v where v.id = p_vault_id
$$;
revoke execute on function app.show_vault(uuid) from public, anon, authenticated;
