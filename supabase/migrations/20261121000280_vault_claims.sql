-- Guardians claim that it is time, vote, and may think again until the window ends. One guardian decides nothing: a
-- quorum is at least two, and there must be one guardian more than it.

-- app.enter_guardian: a guardian who is in, and their vault -----------------------------------------------------
create function app.enter_guardian(p_vault_id uuid, p_token_hash bytea, p_now timestamptz)
returns app.vault_guest
language plpgsql
set search_path = ''
as $$
declare
  v_guest app.vault_guest := app.enter_by_token(p_vault_id, p_token_hash, p_now);
begin
  if (v_guest.person).role <> 'guardian' then
    perform app.refuse('forbidden_person', jsonb_build_object('role', (v_guest.person).role));
  elsif (v_guest.person).status <> 'confirmed' then
    perform app.refuse('forbidden_person', jsonb_build_object('status', (v_guest.person).status));
  end if;
  return v_guest;
end
$$;
revoke execute on function app.enter_guardian(uuid, bytea, timestamptz) from public, anon, authenticated;

-- app.count_guardians: those who are in ------------------------------------------------------------------------------
create function app.count_guardians(p_vault_id uuid)
returns int
language sql
stable
set search_path = ''
as $$
  select count(*)::int from app.vault_people
   where vault_id = p_vault_id and role = 'guardian' and status = 'confirmed'
$$;
revoke execute on function app.count_guardians(uuid) from public, anon, authenticated;

-- app.count_votes: of guardians who are still in --------------------------------------------------------------------
create function app.count_votes(p_claim_id uuid, p_vote text)
returns int
language sql
stable
set search_path = ''
as $$
  select count(*)::int from app.vault_votes o join app.vault_people p on p.id = o.person_id
   where o.claim_id = p_claim_id and o.vote = p_vote and p.status = 'confirmed'
$$;
revoke execute on function app.count_votes(uuid, text) from public, anon, authenticated;

-- api.open_claim: a guardian claims that it is time; that is their vote as well ---------------------------------
create function api.open_claim(
  p_vault_id uuid, p_token_hash bytea, p_claim_id uuid, p_reason text, p_now timestamptz
)
returns jsonb
language plpgsql
security definer
set search_path = ''
set lock_timeout = '5s'
as $$
declare
  v_guest app.vault_guest := app.enter_guardian(p_vault_id, p_token_hash, p_now);
  v_vault app.vaults := v_guest.vault;
  v_person app.vault_people := v_guest.person;
  v_claim app.vault_claims;
begin
  select * into v_claim from app.vault_claims where id = p_claim_id and vault_id = p_vault_id;
  if found then
    return app.show_claim(v_claim);
  end if;
  perform app.require_state(v_vault, array['active']);
  if not v_vault.claim_enabled then
    perform app.refuse('trigger_disabled', jsonb_build_object('trigger', 'guardian_claim'));
  elsif exists (select from app.vault_claims where vault_id = p_vault_id and state = 'gathering_votes') then
    perform app.refuse('claim_exists');
  elsif v_person.cooldown_until > p_now then
    perform app.refuse('claim_cooling_down', jsonb_build_object('until', app.iso(v_person.cooldown_until)));
  elsif app.count_guardians(p_vault_id) <= v_vault.claim_quorum then
    perform app.refuse('too_few_guardians', jsonb_build_object(
      'guardians', app.count_guardians(p_vault_id), 'required', v_vault.claim_quorum + 1));
  elsif not app.has_heir(p_vault_id) then
    perform app.refuse('no_confirmed_heir');
  end if;
  insert into app.vault_claims (id, vault_id, person_id, reason, quorum, created_at, expires_at)
  values (p_claim_id, p_vault_id, v_person.id, p_reason, v_vault.claim_quorum, p_now, p_now + interval '336 hours')
  returning * into v_claim;
  insert into app.vault_votes (claim_id, person_id, vote, voted_at) values (p_claim_id, v_person.id, 'concur', p_now);
  perform app.record_vault(p_vault_id, 'guardian:' || v_person.id, 'claim.open', 'claim', p_claim_id,
    jsonb_build_object('quorum', v_claim.quorum), 'vault.claim_updated', p_now);
  perform app.tell_vault(v_vault, 'vault_claim_notice', array['owner'], jsonb_build_object('person', v_person.name));
  perform app.tell_vault(v_vault, 'vault_claim_opened', array['guardians'],
    jsonb_build_object('person', v_person.name, 'claim_id', p_claim_id));
  perform app.evaluate_vault(p_vault_id, p_now);
  return app.show_claim(v_claim);
end
$$;
revoke execute on function api.open_claim(uuid, bytea, uuid, text, timestamptz) from public, anon, authenticated;
grant execute on function api.open_claim(uuid, bytea, uuid, text, timestamptz) to service_role;

-- app.decide_claim: what the votes come to ------------------------------------------------------------------------
create function app.decide_claim(p_claim app.vault_claims, p_actor text, p_now timestamptz)
returns void
language plpgsql
set search_path = ''
as $$
declare
  v_vault app.vaults;
begin
  select * into v_vault from app.vaults where id = p_claim.vault_id;
  if app.count_votes(p_claim.id, 'reject') >= p_claim.quorum then
    if p_claim.state = 'approved' then
      perform app.cancel_release(v_vault, 'contested', p_actor, null, p_now);
    else
      perform app.end_claim(p_claim, 'contested', p_actor, p_now);
    end if;
  elsif p_claim.state = 'gathering_votes' and app.count_votes(p_claim.id, 'concur') >= p_claim.quorum then
    update app.vault_claims set state = 'approved' where id = p_claim.id and state = 'gathering_votes';
    perform app.record_vault(v_vault.id, p_actor, 'claim.approve', 'claim', p_claim.id,
      jsonb_build_object('quorum', p_claim.quorum), 'vault.claim_updated', p_now);
    select * into v_vault from app.vaults where id = p_claim.vault_id;
    perform app.begin_release(
      v_vault, 'guardian_claim', p_claim.id, v_vault.claim_window_hours, p_actor, null, p_now);
  end if;
end
$$;
revoke execute on function app.decide_claim(app.vault_claims, text, timestamptz) from public, anon, authenticated;

-- api.vote_claim: concur or reject; the last word counts ----------------------------------------------------------
-- While votes are gathered, and until the release that they brought about is complete. Returns the claim.
create function api.vote_claim(
  p_vault_id uuid, p_token_hash bytea, p_claim_id uuid, p_vote text, p_now timestamptz
)
returns jsonb
language plpgsql
security definer
set search_path = ''
set lock_timeout = '5s'
as $$
declare
  v_guest app.vault_guest := app.enter_guardian(p_vault_id, p_token_hash, p_now);
  v_vault app.vaults := v_guest.vault;
  v_actor text := 'guardian:' || (v_guest.person).id;
  v_claim app.vault_claims;
begin
  select * into v_claim from app.vault_claims where id = p_claim_id and vault_id = p_vault_id;
  if not found then
    perform app.refuse('claim_not_found');
  elsif not exists (
    select from app.vault_votes where claim_id = p_claim_id and person_id = (v_guest.person).id and vote = p_vote) then
    if not (v_claim.state = 'gathering_votes' and v_vault.state = 'active'
      or v_claim.id is not distinct from v_vault.claim_id and v_vault.state = 'releasing') then
      perform app.refuse('claim_closed', jsonb_build_object('state', v_claim.state));
    end if;
    insert into app.vault_votes (claim_id, person_id, vote, voted_at)
    values (p_claim_id, (v_guest.person).id, p_vote, p_now)
    on conflict (claim_id, person_id) do update set vote = excluded.vote, voted_at = excluded.voted_at;
    perform app.record_vault(p_vault_id, v_actor, 'claim.vote', 'claim', p_claim_id,
      jsonb_build_object('vote', p_vote), 'vault.claim_updated', p_now);
    perform app.decide_claim(v_claim, v_actor, p_now);
    perform app.evaluate_vault(p_vault_id, p_now);
    select * into v_claim from app.vault_claims where id = p_claim_id;
  end if;
  return app.show_claim(v_claim);
end
$$;
revoke execute on function api.vote_claim(uuid, bytea, uuid, text, timestamptz) from public, anon, authenticated;
grant execute on function api.vote_claim(uuid, bytea, uuid, text, timestamptz) to service_role;

-- api.withdraw_claim: who made it takes it back, while votes are gathered --------------------------------------
create function api.withdraw_claim(p_vault_id uuid, p_token_hash bytea, p_claim_id uuid, p_now timestamptz)
returns jsonb
language plpgsql
security definer
set search_path = ''
set lock_timeout = '5s'
as $$
declare
  v_guest app.vault_guest := app.enter_guardian(p_vault_id, p_token_hash, p_now);
  v_claim app.vault_claims;
begin
  select * into v_claim from app.vault_claims
   where id = p_claim_id and vault_id = p_vault_id and person_id = (v_guest.person).id;
  if not found then
    perform app.refuse('claim_not_found');
  elsif v_claim.state = 'gathering_votes' then
    perform app.end_claim(v_claim, 'withdrawn', 'guardian:' || (v_guest.person).id, p_now);
    perform app.evaluate_vault(p_vault_id, p_now);
    v_claim.state := 'withdrawn';
  elsif v_claim.state <> 'withdrawn' then
    perform app.refuse('claim_closed', jsonb_build_object('state', v_claim.state));
  end if;
  return app.show_claim(v_claim);
end
$$;
revoke execute on function api.withdraw_claim(uuid, bytea, uuid, timestamptz) from public, anon, authenticated;
grant execute on function api.withdraw_claim(uuid, bytea, uuid, timestamptz) to service_role;
