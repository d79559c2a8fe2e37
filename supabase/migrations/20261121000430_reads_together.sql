-- What agents ask for often, for several callers in one call: the call costs more than the answer.
--
-- In both functions the arrays run in parallel. The answer is an array with a place for each: what the function for
-- one caller returns, or null for whoever has to ask that one, which says why.

-- api.read_heads: where the logs of several callers stand -----------------------------------------------------
create function api.read_heads(p_credential_kinds text[], p_credential_hashes bytea[])
returns jsonb
language plpgsql
stable
security definer
set search_path = ''
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
begin
  return (
    select jsonb_agg(
             case when l.id is not null then jsonb_build_object(
               'sequence_number', l.head_sequence,
               'merkle_root', encode(l.merkle_root, 'hex'),
               'updated_at', app.iso(l.updated_at))
             end order by f.place)
      from app.find_principals(p_credential_kinds, p_credential_hashes) with ordinality as f (
             owner_id, account_id, member_id, metered, role, key_id, refusal, place)
      left join app.logs l on f.refusal is null and l.owner_id = f.owner_id and l.member_id = f.member_id
  );
end
$$;
revoke execute on function api.read_heads(text[], bytea[]) from public, anon, authenticated;
grant execute on function api.read_heads(text[], bytea[]) to service_role;

-- api.read_metadatas: the aggregates of several callers' logs (spec 2.6) --------------------------------------
create function api.read_metadatas(p_credential_kinds text[], p_credential_hashes bytea[])
returns jsonb
language plpgsql
stable
security definer
set search_path = ''
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
begin
  return (
    select jsonb_agg(
             case when f.refusal is null then jsonb_build_object(
               'envelopeCount', e.entries,
               'totalBytes', coalesce(l.total_bytes, 0),
               'storeOps', e.entries,
               'recallRequests', u.recalls,
               'syncOpsUsed', u.sync_ops,
               -- No plan limits sync operations; this is the largest integer that every JSON reader keeps exact.
               'syncOpsQuota', 9007199254740991,
               -- Whatever was synced was synced by one device at least.
               'devicesInSync', greatest(d.devices, least(e.entries, 1)),
               'avgLatencyMs', coalesce(round((l.sync_ms / nullif(l.sync_ops, 0))::numeric, 3), 0),
               'lastSyncAt', app.iso(l.updated_at))
             end order by f.place)
      from app.find_principals(p_credential_kinds, p_credential_hashes) with ordinality as f (
             owner_id, account_id, member_id, metered, role, key_id, refusal, place)
      left join app.accounts a on a.id = f.account_id
      left join app.logs l on l.owner_id = f.owner_id and l.member_id = f.member_id
     cross join lateral (
       select coalesce(l.head_sequence - l.first_sequence + 1, 0) as entries
     ) e
     cross join lateral (
       select coalesce(sum(c.recall_requests), 0) as recalls,
              coalesce(sum(c.sync_ops) filter (where c.cycle_start = app.cycle_start(a.period_start)), 0) as sync_ops
         from app.usage_cycles c
        where c.owner_id = f.owner_id
     ) u
     cross join lateral (
       select count(*) as devices
         from app.devices s
        where s.owner_id = f.owner_id and s.last_seen_at > now() - interval '30 days'
     ) d
  );
end
$$;
revoke execute on function api.read_metadatas(text[], bytea[]) from public, anon, authenticated;
grant execute on function api.read_metadatas(text[], bytea[]) to service_role;

-- api.read_metadata: as before, by the same rules --------------------------------------------------------------
create or replace function api.read_metadata(p_credential_kind text, p_credential_hash bytea)
returns jsonb
language plpgsql
stable
security definer
set search_path = ''
as $$
begin
  perform app.identify(p_credential_kind, p_credential_hash);
  return api.read_metadatas(array[p_credential_kind], array[p_credential_hash]) -> 0;
end
$$;
revoke execute on function api.read_metadata(text, bytea) from public, anon, authenticated;
grant execute on function api.read_metadata(text, bytea) to service_role;
