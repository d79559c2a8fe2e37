-- What time does to a vault: reminders, missed check-ins, windows that end, invitations and claims that expire,
-- changes that have waited long enough.

-- app.vault_due_at: when the owner should have checked in -------------------------------------------------------
create function app.vault_due_at(p_vault app.vaults)
returns timestamptz
language sql
immutable
parallel safe
set search_path = ''
as $$
  select greatest(p_vault.last_check_in_at, p_vault.switch_since)
    + make_interval(hours => 24 * p_vault.switch_interval_days)
$$;
revoke execute on function app.vault_due_at(app.vaults) from public, anon, authenticated;

-- app.vault_deadline: when a missed check-in begins a release ---------------------------------------------------
-- Never less than a day after the first reminder, however late that was queued.
create function app.vault_deadline(p_vault app.vaults)
returns timestamptz
language sql
immutable
parallel safe
set search_path = ''
as $$
  select greatest(
    app.vault_due_at(p_vault) + make_interval(hours => 24 * p_vault.switch_grace_days),
    p_vault.reminded_at + interval '24 hours')
$$;
revoke execute on function app.vault_deadline(app.vaults) from public, anon, authenticated;

-- app.reminder_times: at the start of the grace, in its middle, and a day before its end -------------------------
create function app.reminder_times(p_vault app.vaults)
returns timestamptz[]
language sql
immutable
parallel safe
set search_path = ''
as $$
  select array_agg(t order by t) from unnest(array[
    app.vault_due_at(p_vault),
    app.vault_due_at(p_vault) + make_interval(hours => 12 * p_vault.switch_grace_days),
    app.vault_due_at(p_vault) + make_interval(hours => 24 * (p_vault.switch_grace_days - 1))]) t
$$;
revoke execute on function app.reminder_times(app.vaults) from public, anon, authenticated;

-- app.remind_owner: one mail, whatever was missed ----------------------------------------------------------------
create function app.remind_owner(p_vault app.vaults, p_reminders int, p_now timestamptz)
returns void
language plpgsql
set search_path = ''
as $$
declare
  v_vault app.vaults;
begin
  update app.vaults set reminders = p_reminders, reminded_at = coalesce(reminded_at, p_now)
   where id = p_vault.id and state = 'active' and reminders = p_vault.reminders
  returning * into v_vault;
  perform app.record_vault(v_vault.id, 'service', 'check_in.remind', 'vault', v_vault.id,
    jsonb_build_object('reminder', p_reminders, 'deadline', app.iso(app.vault_deadline(v_vault))),
    'vault.check_in_due', p_now);
  perform app.tell_vault(v_vault, 'vault_check_in_due', array['owner'],
    jsonb_build_object('deadline', app.iso(app.vault_deadline(v_vault))));
end
$$;
revoke execute on function app.remind_owner(app.vaults, int, timestamptz) from public, anon, authenticated;

-- app.next_change: the change that is due, if any ----------------------------------------------------------------
-- One that was not asked for by the living owner also waits until they have shown themselves since. While a release
-- runs, only what was due before its end takes effect before it.
create function app.next_change(p_vault app.vaults, p_now timestamptz)
returns app.vault_changes
language sql
stable
set search_path = ''
as $$
  select c.* from app.vault_changes c
   where c.vault_id = p_vault.id and c.state = 'pending' and c.executes_at <= p_now
     and (c.proven or c.requested_at < p_vault.last_check_in_at)
     and (p_vault.state = 'active' or (p_vault.state = 'releasing'
       and (c.executes_at <= p_vault.release_at or p_vault.blocked_since is not null)))
   order by c.executes_at, c.id limit 1
$$;
revoke execute on function app.next_change(app.vaults, timestamptz) from public, anon, authenticated;

-- app.advance_vault: the next thing that time has done, if any --------------------------------------------------
-- Returns whether there was one.
create function app.advance_vault(p_vault app.vaults, p_now timestamptz)
returns boolean
language plpgsql
set search_path = ''
as $$
declare
  v_change app.vault_changes := app.next_change(p_vault, p_now);
  v_claim app.vault_claims;
  v_person app.vault_people;
  v_reminders int;
begin
  if v_change.id is not null then
    perform app.execute_change(v_change, p_now);
    return true;
  end if;
  select * into v_claim from app.vault_claims
   where vault_id = p_vault.id and state = 'gathering_votes' and expires_at <= p_now;
  if found then
    perform app.end_claim(v_claim, 'expired', 'service', p_now);
    return true;
  end if;
  select * into v_person from app.vault_people
   where vault_id = p_vault.id and status = 'pending' and expires_at <= p_now limit 1;
  if found then
    perform app.end_person(v_person, 'expired', 'service', p_now);
    return true;
  end if;
  if p_vault.state = 'active' and p_vault.switch_enabled then
    select count(*) into v_reminders from unnest(app.reminder_times(p_vault)) t where t <= p_now;
    if v_reminders > p_vault.reminders then
      perform app.remind_owner(p_vault, v_reminders, p_now);
      return true;
    elsif p_vault.reminders > 0 and p_now >= app.vault_deadline(p_vault) and app.has_heir(p_vault.id) then
      perform app.begin_release(p_vault, 'dead_man_switch', null, p_vault.switch_window_hours, 'service', null, p_now);
      return true;
    end if;
  elsif p_vault.state = 'releasing' and p_now >= p_vault.release_at then
    if app.can_release(p_vault) then
      perform app.complete_release(p_vault, p_now);
      return true;
    elsif p_vault.blocked_since is null then
      perform app.block_release(p_vault, p_now);
      return true;
    end if;
  end if;
  return false;
end
$$;
revoke execute on function app.advance_vault(app.vaults, timestamptz) from public, anon, authenticated;

-- app.vault_look_at: when time alone may change something next --------------------------------------------------
create function app.vault_look_at(p_vault app.vaults, p_now timestamptz)
returns timestamptz
language sql
stable
set search_path = ''
as $$
  select least(
    case when p_vault.state = 'active' and p_vault.switch_enabled then least(
      (select min(t) from unnest(app.reminder_times(p_vault)) t where t > p_now),
      case when app.has_heir(p_vault.id) then app.vault_deadline(p_vault) end) end,
    case when p_vault.state = 'releasing' and p_vault.blocked_since is null then p_vault.release_at end,
    (select min(executes_at) from app.vault_changes
      where vault_id = p_vault.id and state = 'pending' and p_vault.state <> 'released'
        and (proven or requested_at < p_vault.last_check_in_at)
        and (p_vault.state = 'active' or p_vault.blocked_since is not null or executes_at <= p_vault.release_at)),
    (select min(expires_at) from app.vault_claims where vault_id = p_vault.id and state = 'gathering_votes'),
    (select min(expires_at) from app.vault_people where vault_id = p_vault.id and status = 'pending'))
$$;
revoke execute on function app.vault_look_at(app.vaults, timestamptz) from public, anon, authenticated;

-- app.evaluate_vault: bring a vault up to a moment --------------------------------------------------------------
-- The caller holds its lock. Each round is one thing; there are only so many that can be due.
create function app.evaluate_vault(p_vault_id uuid, p_now timestamptz)
returns app.vaults
language plpgsql
set search_path = ''
as $$
declare
  v_vault app.vaults;
begin
  loop
    select * into v_vault from app.vaults where id = p_vault_id;
    exit when not app.advance_vault(v_vault, p_now);
  end loop;
  update app.vaults set look_at = app.vault_look_at(v_vault, p_now) where id = p_vault_id returning * into v_vault;
  return v_vault;
end
$$;
revoke execute on function app.evaluate_vault(uuid, timestamptz) from public, anon, authenticated;

-- api.list_due_vaults: those that the job should look at ---------------------------------------------------------
create function api.list_due_vaults(p_now timestamptz, p_limit int)
returns jsonb
language sql
stable
security definer
set search_path = ''
as $$
  select coalesce(jsonb_agg(d.id), '[]')
    from (select id from app.vaults where look_at <= p_now order by look_at limit p_limit) d
$$;
revoke execute on function api.list_due_vaults(timestamptz, int) from public, anon, authenticated;
grant execute on function api.list_due_vaults(timestamptz, int) to service_role;

-- api.settle_vault: the job looks at one --------------------------------------------------------------------------
-- Passes over a vault that somebody holds: they evaluate it themselves. Returns {"moved": whether it changed state}.
create function api.settle_vault(p_vault_id uuid, p_now timestamptz)
returns jsonb
language plpgsql
security definer
set search_path = ''
as $$
declare
  v_before app.vaults;
  v_after app.vaults;
begin
  select * into v_before from app.vaults where id = p_vault_id for no key update skip locked;
  if not found then
    return jsonb_build_object('moved', false);
  end if;
  v_after := app.evaluate_vault(p_vault_id, p_now);
  return jsonb_build_object('moved', v_after.version <> v_before.version);
end
$$;
revoke execute on function api.settle_vault(uuid, timestamptz) from public, anon, authenticated;
grant execute on function api.settle_vault(uuid, timestamptz) to service_role;
