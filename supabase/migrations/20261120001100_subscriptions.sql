-- What a person has subscribed to, and what they have used of it. Spec 2.6a, 2.9 and 4.6 (the two GETs).
--
-- The payment provider's events write the table; here it is read. Its period is the account's billing cycle, and is
-- mirrored into the account's row so that counting a write needs no look-up.

create table app.subscriptions (
  account_id uuid primary key references app.accounts (id) on delete cascade,
  plan text not null check (plan in ('free', 'hobby', 'pro', 'growth', 'enterprise')),
  status text not null,
  quota_sync_ops bigint not null check (quota_sync_ops >= 0),
  quota_storage_bytes bigint not null check (quota_storage_bytes >= 0),
  quota_subkeys bigint not null check (quota_subkeys >= 0),
  quota_devices bigint not null check (quota_devices >= 0),
  -- Null on plans whose seats do not scale.
  seat_count int check (seat_count >= 0),
  included_seats int check (included_seats >= 0),
  polar_customer_id text,
  polar_subscription_id text unique,
  current_period_start timestamptz,
  current_period_end timestamptz check (current_period_end > current_period_start),
  updated_at timestamptz not null default now()
);
alter table app.subscriptions enable row level security;

-- app.mirror_period: the account's cycle follows its subscription --------------------------------------------
create function app.mirror_period()
returns trigger
language plpgsql
set search_path = ''
as $$
begin
  if tg_op = 'DELETE' then
    update app.accounts set period_start = null where id = old.account_id;
    return old;
  end if;
  -- A subscription that has ended leaves the calendar month.
  update app.accounts
     set period_start = case when new.status = 'canceled' then null else new.current_period_start end
   where id = new.account_id;
  return new;
end
$$;
revoke execute on function app.mirror_period() from public, anon, authenticated;
create trigger subscriptions_set_the_cycle after insert or update or delete on app.subscriptions
  for each row execute function app.mirror_period();

-- api.read_subscription: the caller's subscription, or null ---------------------------------------------------
create function api.read_subscription(p_subject text, p_email text)
returns jsonb
language plpgsql
security definer
set search_path = ''
as $$
declare
  v_account_id uuid := app.open_user(p_subject, p_email);
begin
  return (
    select jsonb_build_object(
             'user_id', p_subject,
             'plan', s.plan,
             'status', s.status,
             'quota_sync_ops', s.quota_sync_ops,
             'quota_storage_bytes', s.quota_storage_bytes,
             'quota_subkeys', s.quota_subkeys,
             'quota_devices', s.quota_devices,
             'polar_customer_id', s.polar_customer_id,
             'polar_subscription_id', s.polar_subscription_id,
             'current_period_end', app.iso(s.current_period_end)
           ) || case
             when s.seat_count is null then '{}'
             else jsonb_build_object('seat_count', s.seat_count, 'included_seats', s.included_seats)
           end
      from app.subscriptions s
     where s.account_id = v_account_id
  );
end
$$;
revoke execute on function api.read_subscription(text, text) from public, anon, authenticated;
grant execute on function api.read_subscription(text, text) to service_role;

-- api.read_usage: what all keys of the caller did in the running cycle ---------------------------------------
-- Devices are those seen in the last 30 days; whatever was stored was stored by one at least.
create function api.read_usage(p_subject text, p_email text)
returns jsonb
language plpgsql
security definer
set search_path = ''
as $$
declare
  v_account_id uuid := app.open_user(p_subject, p_email);
  v_usage app.usage_cycles;
  v_devices bigint;
begin
  select u.* into v_usage
    from app.accounts a
    join app.usage_cycles u on u.owner_id = a.id and u.cycle_start = app.cycle_start(a.period_start)
   where a.id = v_account_id;
  select count(*) into v_devices from app.devices
   where owner_id = v_account_id and last_seen_at > now() - interval '30 days';
  return jsonb_build_object(
    'sync_ops', coalesce(v_usage.sync_ops, 0),
    'store_ops', coalesce(v_usage.store_ops, 0),
    'recall_requests', coalesce(v_usage.recall_requests, 0),
    'bytes_stored', coalesce(v_usage.bytes_stored, 0),
    'devices', greatest(v_devices, case when v_usage.store_ops > 0 then 1 else 0 end));
end
$$;
revoke execute on function api.read_usage(text, text) from public, anon, authenticated;
grant execute on function api.read_usage(text, text) to service_role;
