-- What nobody needs any more is removed: in small batches, by as many workers as there are, a bit at a time.
--
-- How long each thing is kept is the service's to say; which rows may go is said here, once, and used for counting and
-- for removing alike. Objects go before the rows that name them, and only when the row says that its upload failed and
-- the time is over in which anything may still be writing it.

-- Indexes: each rule finds the rows that are due without reading the others ---------------------------------
create index snapshots_failed on app.snapshots (created_at) where status = 'failed';
create index team_invitations_open on app.team_invitations (expires_at) where accepted_at is null;
create index mail_outbox_sent on app.mail_outbox (sent_at) where sent_at is not null;
create index webhook_deliveries_finished on app.webhook_deliveries (created_at) where status <> 'pending';
create index webhooks_deleted on app.webhooks (deleted_at) where deleted_at is not null;
-- Written at every memory: a few bytes for many rows, which lie in the order of their age.
create index team_sync_log_by_age on app.team_sync_log using brin (synced_at);
create index usage_cycles_by_age on app.usage_cycles (cycle_start);
create index devices_by_age on app.devices (last_seen_at);

-- app.retention_rule: which rows of which table may go --------------------------------------------------------
-- In the condition `t` is the row and `$1` the moment before which it has to have ended. A confirmed snapshot's attempt
-- is not here: it names the object. Neither are invitations that were accepted: they say who is a guardian.
create function app.retention_rule(p_what text, out target text, out condition text)
language plpgsql
immutable
set search_path = ''
as $$
begin
  case p_what
    when 'failed_snapshots' then
      target := 'app.snapshots';
      condition := $rule$ t.status = 'failed' and t.created_at < $1
        and not exists (select from app.snapshot_attempts a where a.snapshot_id = t.id) $rule$;
    when 'invitations' then
      target := 'app.team_invitations';
      condition := $rule$ t.accepted_at is null and t.expires_at < $1 $rule$;
    when 'mail_sent' then
      target := 'app.mail_outbox';
      condition := $rule$ t.sent_at < $1 $rule$;
    when 'mail_given_up' then
      target := 'app.mail_outbox';
      condition := $rule$ t.given_up_at < $1 $rule$;
    when 'webhook_deliveries' then
      target := 'app.webhook_deliveries';
      condition := $rule$ t.status <> 'pending' and t.created_at < $1 $rule$;
    when 'deleted_webhooks' then
      target := 'app.webhooks';
      condition := $rule$ t.deleted_at < $1
        and not exists (select from app.webhook_deliveries d where d.webhook_id = t.id) $rule$;
    when 'sync_log' then
      target := 'app.team_sync_log';
      condition := $rule$ t.synced_at < $1 $rule$;
    when 'usage_cycles' then
      target := 'app.usage_cycles';
      -- Not what runs, however long its period is, and not the row that the others were added up in.
      condition := $rule$ t.cycle_start < $1 and t.cycle_start > '-infinity' and not exists (
        select from app.accounts a
         where a.id = coalesce((select m.account_id from app.teams m where m.id = t.owner_id), t.owner_id)
           and t.cycle_start >= app.cycle_start(a.period_start)) $rule$;
    when 'devices' then
      target := 'app.devices';
      condition := $rule$ t.last_seen_at < $1 $rule$;
    when 'rate_limits' then
      target := 'app.rate_limits';
      condition := $rule$ t.window_start < $1 $rule$;
    when 'marketing_unconfirmed' then
      target := 'app.marketing_contacts';
      condition := $rule$ t.confirmed_at is null and t.created_at < $1 $rule$;
  end case;
end
$$;
revoke execute on function app.retention_rule(text) from public, anon, authenticated;

-- api.count_expired: how many rows may go ---------------------------------------------------------------------
create function api.count_expired(p_what text, p_keep_days int)
returns jsonb
language plpgsql
stable
security definer
set search_path = ''
as $$
declare
  v_rule record;
  v_count bigint;
begin
  select * into v_rule from app.retention_rule(p_what);
  execute format('select count(*) from %s t where %s', v_rule.target, v_rule.condition)
    into v_count using now() - make_interval(days => p_keep_days);
  return jsonb_build_object('count', v_count);
end
$$;
revoke execute on function api.count_expired(text, int) from public, anon, authenticated;
grant execute on function api.count_expired(text, int) to service_role;

-- api.purge_expired: remove some of them ----------------------------------------------------------------------
-- At most `p_limit`, passing over what somebody else holds. Returns {"count"}: fewer than the limit means that none was
-- left. A repeated call removes more; nothing is lost by that but the first one's count.
create function api.purge_expired(p_what text, p_keep_days int, p_limit int)
returns jsonb
language plpgsql
security definer
set search_path = ''
as $$
declare
  v_rule record;
  v_before timestamptz := now() - make_interval(days => p_keep_days);
  v_count bigint;
begin
  if p_what = 'usage_cycles' then
    return jsonb_build_object('count', app.fold_usage(v_before, p_limit));
  end if;
  select * into v_rule from app.retention_rule(p_what);
  execute format(
    'delete from %1$s where ctid = any (array(
       select t.ctid from %1$s t where %2$s limit $2 for update skip locked))', v_rule.target, v_rule.condition)
    using v_before, p_limit;
  get diagnostics v_count = row_count;
  return jsonb_build_object('count', v_count);
end
$$;
revoke execute on function api.purge_expired(text, int, int) from public, anon, authenticated;
grant execute on function api.purge_expired(text, int, int) to service_role;

-- app.fold_usage: closed cycles become one row ----------------------------------------------------------------
-- `recallRequests` counts for ever, so what was counted is added to a row of its own that no cycle can have.
create function app.fold_usage(p_before timestamptz, p_limit int)
returns bigint
language plpgsql
set search_path = ''
as $$
declare
  v_rule record;
  v_count bigint;
begin
  select * into v_rule from app.retention_rule('usage_cycles');
  execute format($fold$
    with gone as (
      delete from app.usage_cycles where ctid = any (array(
        select t.ctid from app.usage_cycles t where %s
         order by t.owner_id limit $2 for update skip locked))
      returning *
    ),
    folded as (
      insert into app.usage_cycles as u (owner_id, cycle_start, sync_ops, store_ops, recall_requests, bytes_stored)
      select g.owner_id, '-infinity', sum(g.sync_ops), sum(g.store_ops), sum(g.recall_requests), sum(g.bytes_stored)
        from gone g group by g.owner_id order by g.owner_id
      on conflict (owner_id, cycle_start) do update
        set sync_ops = u.sync_ops + excluded.sync_ops,
            store_ops = u.store_ops + excluded.store_ops,
            recall_requests = u.recall_requests + excluded.recall_requests,
            bytes_stored = u.bytes_stored + excluded.bytes_stored
    )
    select count(*) from gone $fold$, v_rule.condition)
    into v_count using p_before, p_limit;
  return v_count;
end
$$;
revoke execute on function app.fold_usage(timestamptz, int) from public, anon, authenticated;

-- app.orphaned_attempts: uploads that failed, and whose objects nothing refers to -----------------------------
-- The lease is longer than any worker lives, and the grace comes on top: nobody is writing these any more.
create function app.orphaned_attempts(p_grace_seconds int)
returns setof app.snapshot_attempts
language sql
stable
set search_path = ''
as $$
  select t.* from app.snapshot_attempts t
   where t.status = 'failed' and t.lease_expires_at <= now() - make_interval(secs => p_grace_seconds)
     and not exists (
       select from app.snapshots s where s.id = t.snapshot_id and s.object_name = t.object_name)
$$;
revoke execute on function app.orphaned_attempts(int) from public, anon, authenticated;

-- api.settle_snapshots: the sweep's first half, now with a grace for what an upload may have left --------------
drop function api.settle_snapshots(int);
create function api.settle_snapshots(p_limit int, p_grace_seconds int default 0)
returns jsonb
language plpgsql
security definer
set search_path = ''
as $$
declare
  v_agent_ref bigint;
  v_failed int := 0;
begin
  for v_agent_ref in
    select a.id from app.agents a
     where a.id in (
       select s.agent_ref from app.snapshot_attempts t join app.snapshots s on s.id = t.snapshot_id
        where t.status = 'pending' and t.lease_expires_at <= now()
     )
     order by a.id
     limit p_limit
       for no key update skip locked
  loop
    v_failed := v_failed + app.settle_agent(v_agent_ref);
    -- Uploads that lost to another one and died before they could say so.
    update app.snapshot_attempts t set status = 'failed'
      from app.snapshots s
     where s.id = t.snapshot_id and s.agent_ref = v_agent_ref and s.status <> 'pending'
       and t.status = 'pending' and t.lease_expires_at <= now();
  end loop;
  return jsonb_build_object(
    'failed', v_failed,
    'orphans', coalesce((
      select jsonb_agg(jsonb_build_object('attempt_id', t.id, 'object_name', t.object_name))
        from (
          select o.id, o.object_name from app.orphaned_attempts(p_grace_seconds) o
           order by o.lease_expires_at limit p_limit
        ) t
    ), '[]')
  );
end
$$;
revoke execute on function api.settle_snapshots(int, int) from public, anon, authenticated;
grant execute on function api.settle_snapshots(int, int) to service_role;

-- api.count_unsettled: what the sweep would find ----------------------------------------------------------------
-- Returns {"failed": snapshots that would be given up and refunded, "orphans": objects that would be removed}. What is
-- given up now has its grace before it.
create function api.count_unsettled(p_grace_seconds int)
returns jsonb
language sql
stable
security definer
set search_path = ''
as $$
  select jsonb_build_object(
    'failed', (
      select count(distinct s.id)
        from app.snapshot_attempts t join app.snapshots s on s.id = t.snapshot_id
       where t.status = 'pending' and t.lease_expires_at <= now() and s.status = 'pending'
         and not exists (
           select from app.snapshot_attempts o
            where o.snapshot_id = s.id and o.status = 'pending' and o.lease_expires_at > now())),
    'orphans', (select count(*) from app.orphaned_attempts(p_grace_seconds)))
$$;
revoke execute on function api.count_unsettled(int) from public, anon, authenticated;
grant execute on function api.count_unsettled(int) to service_role;
