-- A subscription stays with the account that its first event named.
--
-- An event that names another customer for a subscription that is known was written down for the first account and
-- shown to the second, which had none: the event failed, and the payment provider would have sent it for ever.

-- api.apply_subscription_event: as before, but whose it is says the subscription's own row ----------------------
-- Plan, status and quotas are those that the event leads to. Returns {"outcome": "applied" | "stale" |
-- "duplicate"}; "stale" is an event older than what is known.
create or replace function api.apply_subscription_event(
  p_webhook_id text, p_kind text, p_subscription_id text, p_subject text, p_customer_id text, p_plan text,
  p_status text, p_quota_sync_ops bigint, p_quota_storage_bytes bigint, p_quota_subkeys bigint,
  p_quota_devices bigint, p_seats int, p_period_start timestamptz, p_period_end timestamptz,
  p_created_at timestamptz, p_modified_at timestamptz
)
returns jsonb
language plpgsql
security definer
set search_path = ''
as $$
declare
  v_account_id uuid;
  v_owner_id uuid;
  v_newer boolean;
begin
  if not app.claim_polar_event(p_webhook_id, p_kind, p_subscription_id, p_modified_at) then
    return jsonb_build_object('outcome', 'duplicate');
  end if;
  v_account_id := app.open_customer(p_subject);
  insert into app.polar_subscriptions as s (
    subscription_id, account_id, customer_id, plan, status, quota_sync_ops, quota_storage_bytes, quota_subkeys,
    quota_devices, seats, current_period_start, current_period_end, created_at, modified_at, kind_rank,
    webhook_id)
  values (
    p_subscription_id, v_account_id, p_customer_id, p_plan, p_status, p_quota_sync_ops, p_quota_storage_bytes,
    p_quota_subkeys, p_quota_devices, p_seats, p_period_start, p_period_end, p_created_at, p_modified_at,
    app.polar_rank(p_kind), p_webhook_id)
  on conflict (subscription_id) do update set
    customer_id = excluded.customer_id,
    plan = excluded.plan,
    status = excluded.status,
    quota_sync_ops = excluded.quota_sync_ops,
    quota_storage_bytes = excluded.quota_storage_bytes,
    quota_subkeys = excluded.quota_subkeys,
    quota_devices = excluded.quota_devices,
    seats = excluded.seats,
    current_period_start = excluded.current_period_start,
    current_period_end = excluded.current_period_end,
    created_at = least(s.created_at, excluded.created_at),
    modified_at = excluded.modified_at,
    kind_rank = excluded.kind_rank,
    webhook_id = excluded.webhook_id
  where (excluded.modified_at, excluded.kind_rank, excluded.webhook_id collate "C")
      > (s.modified_at, s.kind_rank, s.webhook_id collate "C")
  returning account_id into v_owner_id;
  v_newer := found;
  if not v_newer then
    -- An old event still knows when the subscription began, which decides between several.
    update app.polar_subscriptions set created_at = p_created_at
     where subscription_id = p_subscription_id and created_at > p_created_at
    returning account_id into v_owner_id;
  end if;
  if found then
    perform app.show_subscription(v_owner_id, case when v_newer then p_subscription_id else '' end);
  end if;
  return app.finish_polar_event(p_webhook_id, case when v_newer then 'applied' else 'stale' end);
end
$$;
revoke execute on function api.apply_subscription_event(
  text, text, text, text, text, text, text, bigint, bigint, bigint, bigint, int, timestamptz, timestamptz,
  timestamptz, timestamptz) from public, anon, authenticated;
grant execute on function api.apply_subscription_event(
  text, text, text, text, text, text, text, bigint, bigint, bigint, bigint, int, timestamptz, timestamptz,
  timestamptz, timestamptz) to service_role;
