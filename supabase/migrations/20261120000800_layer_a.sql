-- Layer A: the counts, byte totals and timestamps of an agent's log. Spec 2.6 and 4.3.

-- api.read_metadata: the aggregates of the token's log --------------------------------------------------------
create function api.read_metadata(p_credential_kind text, p_credential_hash bytea)
returns jsonb
language plpgsql
stable
security definer
set search_path = ''
as $$
declare
  v_principal app.principal := app.identify(p_credential_kind, p_credential_hash);
  v_log app.logs;
  v_account app.accounts;
  v_devices bigint;
  v_entries bigint;
begin
  select * into v_log from app.logs
   where owner_id = v_principal.owner_id and member_id = v_principal.member_id;
  select * into v_account from app.accounts where id = v_principal.account_id;
  select count(*) into v_devices from app.devices
   where owner_id = v_principal.owner_id and last_seen_at > now() - interval '30 days';
  v_entries := coalesce(v_log.head_sequence - v_log.first_sequence + 1, 0);
  return jsonb_build_object(
    'envelopeCount', v_entries,
    'totalBytes', coalesce(v_log.total_bytes, 0),
    'storeOps', v_entries,
    'recallRequests', coalesce(
      (select sum(recall_requests) from app.usage_cycles where owner_id = v_principal.owner_id), 0),
    'syncOpsUsed', coalesce((
      select sync_ops from app.usage_cycles
       where owner_id = v_principal.owner_id and cycle_start = app.cycle_start(v_account.period_start)), 0),
    -- No plan limits sync operations; this is the largest integer that every JSON reader keeps exact.
    'syncOpsQuota', 9007199254740991,
    -- Whatever was synced was synced by one device at least.
    'devicesInSync', greatest(v_devices, case when v_entries > 0 then 1 else 0 end),
    'avgLatencyMs', coalesce(round((v_log.sync_ms / nullif(v_log.sync_ops, 0))::numeric, 3), 0),
    'lastSyncAt', app.iso(v_log.updated_at)
  );
end
$$;
revoke execute on function api.read_metadata(text, bytea) from public, anon, authenticated;
grant execute on function api.read_metadata(text, bytea) to service_role;
