-- What the payment provider's events do: plans, seats and bought credits. Spec 3, 4.6 and 6.
--
-- Events come at least once and in any order. Each is kept by its webhook id for ever, so that a repetition does
-- nothing. Of a subscription only the newest state counts, by the provider's own time of modification; the account's
-- row follows from the states of all its subscriptions. An order counts as paid once, and as refunded as far as it
-- ever was. What is left in the end therefore depends on which events came, and not on when or how often.

-- Tables -----------------------------------------------------------------------------------------------------
-- No foreign key and nothing of a person: an event stays known when its account is gone.
create table app.polar_events (
  webhook_id text primary key check (webhook_id <> ''),
  kind text not null,
  object_id text,
  modified_at timestamptz,
  outcome text not null default 'recorded' check (outcome ~ '^[a-z]+(_[a-z]+)*$'),
  received_at timestamptz not null default now()
);

-- The newest state of each subscription, and in the last three columns what makes it the newest.
create table app.polar_subscriptions (
  subscription_id text primary key,
  account_id uuid not null references app.accounts (id) on delete cascade,
  customer_id text,
  plan text not null,
  status text not null,
  quota_sync_ops bigint not null,
  quota_storage_bytes bigint not null,
  quota_subkeys bigint not null,
  quota_devices bigint not null,
  seats int check (seats >= 0),
  current_period_start timestamptz,
  current_period_end timestamptz,
  created_at timestamptz not null,
  modified_at timestamptz not null,
  kind_rank int not null,
  webhook_id text not null
);
create index polar_subscriptions_by_account on app.polar_subscriptions (account_id);

create table app.polar_orders (
  order_id text primary key,
  account_id uuid not null references app.accounts (id) on delete cascade,
  -- Null until it is known to be paid.
  credits_milli bigint check (credits_milli between 1 and 1000000000000),
  refunded_ppm int not null default 0 check (refunded_ppm between 0 and 1000000),
  -- How much of the credits has been asked back; less was taken when less was left.
  settled_milli bigint not null default 0 check (settled_milli >= 0)
);
create index polar_orders_by_account on app.polar_orders (account_id);

alter table app.polar_events enable row level security;
alter table app.polar_subscriptions enable row level security;
alter table app.polar_orders enable row level security;

-- The ledger learns of purchases -----------------------------------------------------------------------------
alter table app.credit_ledger
  drop constraint credit_ledger_kind_check,
  drop constraint credit_ledger_check,
  add constraint credit_ledger_kind_check check (
    kind in ('grant', 'replication', 'snapshot', 'snapshot_refund', 'purchase', 'purchase_refund')),
  add constraint credit_ledger_check check (
    case when kind in ('replication', 'snapshot', 'purchase_refund') then amount_milli < 0
         else amount_milli > 0 end);

-- app.polar_rank: which of two events of one moment counts ----------------------------------------------------
-- The provider sends several kinds for one change; the one that says most comes last.
create function app.polar_rank(p_kind text)
returns int
language sql
immutable
parallel safe
set search_path = ''
as $$
  select array_position(array[
    'subscription.created', 'subscription.active', 'subscription.updated', 'subscription.canceled',
    'subscription.revoked'], p_kind)
$$;
revoke execute on function app.polar_rank(text) from public, anon, authenticated;

-- app.claim_polar_event: is this the first time? --------------------------------------------------------------
-- A copy that comes at the same time waits here until the first one is done, or undone.
create function app.claim_polar_event(p_webhook_id text, p_kind text, p_object_id text, p_modified_at timestamptz)
returns boolean
language plpgsql
set search_path = ''
as $$
begin
  insert into app.polar_events (webhook_id, kind, object_id, modified_at)
  values (p_webhook_id, p_kind, p_object_id, p_modified_at)
  on conflict (webhook_id) do nothing;
  return found;
end
$$;
revoke execute on function app.claim_polar_event(text, text, text, timestamptz) from public, anon, authenticated;

-- app.finish_polar_event: what became of it -------------------------------------------------------------------
create function app.finish_polar_event(p_webhook_id text, p_outcome text)
returns jsonb
language plpgsql
set search_path = ''
as $$
begin
  update app.polar_events set outcome = p_outcome where webhook_id = p_webhook_id;
  return jsonb_build_object('outcome', p_outcome);
end
$$;
revoke execute on function app.finish_polar_event(text, text) from public, anon, authenticated;

-- app.open_customer: the account of a customer, for one event at a time --------------------------------------
-- The owner's row is the lock: nothing that agents do waits for it.
create function app.open_customer(p_subject text)
returns uuid
language plpgsql
set search_path = ''
as $$
declare
  v_account_id uuid := app.open_user(p_subject);
begin
  perform from app.owners where id = v_account_id for no key update;
  return v_account_id;
end
$$;
revoke execute on function app.open_customer(text) from public, anon, authenticated;

-- app.show_subscription: the account's row follows its subscriptions -----------------------------------------
-- Of several: one that is not canceled, then one whose plan we know, then the newest. Unless that is the one which
-- has just changed, its row stays: its seats may have been changed here since its last event.
create function app.show_subscription(p_account_id uuid, p_changed text)
returns void
language plpgsql
set search_path = ''
as $$
declare
  v_best app.polar_subscriptions;
  v_included int;
begin
  select * into v_best from app.polar_subscriptions
   where account_id = p_account_id
   order by status <> 'canceled' desc, plan <> 'free' desc, created_at desc, subscription_id collate "C" desc
   limit 1;
  if v_best.subscription_id <> p_changed and exists (
    select from app.subscriptions
     where account_id = p_account_id and polar_subscription_id = v_best.subscription_id
  ) then
    return;
  end if;
  if v_best.plan in ('growth', 'pro', 'enterprise') and v_best.status <> 'canceled' then
    v_included := app.included_seats(v_best.plan);
  end if;
  insert into app.subscriptions as s (
    account_id, plan, status, quota_sync_ops, quota_storage_bytes, quota_subkeys, quota_devices, seat_count,
    included_seats, polar_customer_id, polar_subscription_id, current_period_start, current_period_end)
  values (
    p_account_id, v_best.plan, v_best.status, v_best.quota_sync_ops, v_best.quota_storage_bytes,
    v_best.quota_subkeys, v_best.quota_devices,
    case when v_included is not null then coalesce(v_best.seats, v_included) end,
    v_included, v_best.customer_id, v_best.subscription_id, v_best.current_period_start,
    v_best.current_period_end)
  on conflict (account_id) do update set
    plan = excluded.plan,
    status = excluded.status,
    quota_sync_ops = excluded.quota_sync_ops,
    quota_storage_bytes = excluded.quota_storage_bytes,
    quota_subkeys = excluded.quota_subkeys,
    quota_devices = excluded.quota_devices,
    seat_count = excluded.seat_count,
    included_seats = excluded.included_seats,
    polar_customer_id = excluded.polar_customer_id,
    polar_subscription_id = excluded.polar_subscription_id,
    current_period_start = excluded.current_period_start,
    current_period_end = excluded.current_period_end,
    updated_at = now();
end
$$;
revoke execute on function app.show_subscription(uuid, text) from public, anon, authenticated;

-- api.apply_subscription_event: one event about a subscription -----------------------------------------------
-- Plan, status and quotas are those that the event leads to. Returns {"outcome": "applied" | "stale" |
-- "duplicate"}; "stale" is an event older than what is known.
create function api.apply_subscription_event(
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
      > (s.modified_at, s.kind_rank, s.webhook_id collate "C");
  v_newer := found;
  if not v_newer then
    -- An old event still knows when the subscription began, which decides between several.
    update app.polar_subscriptions set created_at = p_created_at
     where subscription_id = p_subscription_id and created_at > p_created_at;
  end if;
  if found then
    perform app.show_subscription(v_account_id, case when v_newer then p_subscription_id else '' end);
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

-- app.settle_order: an order's credits, and what of them was refunded ----------------------------------------
-- Adds the credits once, then takes back what the refund has grown by, but never more than is left.
create function app.settle_order(p_order app.polar_orders)
returns void
language plpgsql
set search_path = ''
as $$
declare
  v_owed bigint := (p_order.credits_milli * p_order.refunded_ppm + 999999) / 1000000;
  v_left bigint;
  v_taken bigint;
begin
  insert into app.credit_ledger (account_id, kind, amount_milli, reference, actor, note)
  values (
    p_order.account_id, 'purchase', p_order.credits_milli, md5('polar order ' || p_order.order_id)::uuid, 'polar',
    p_order.order_id)
  on conflict (reference, kind) where reference is not null do nothing;
  if found then
    update app.accounts set credits_milli = credits_milli + p_order.credits_milli where id = p_order.account_id;
  end if;
  if v_owed <= p_order.settled_milli then
    return;
  end if;
  select credits_milli into v_left from app.accounts where id = p_order.account_id for no key update;
  v_taken := least(v_left, v_owed - p_order.settled_milli);
  if v_taken > 0 then
    insert into app.credit_ledger (account_id, kind, amount_milli, reference, actor, note)
    values (
      p_order.account_id, 'purchase_refund', -v_taken,
      md5('polar refund ' || v_owed || ' of ' || p_order.order_id)::uuid, 'polar', p_order.order_id);
    update app.accounts set credits_milli = credits_milli - v_taken where id = p_order.account_id;
  end if;
  update app.polar_orders set settled_milli = v_owed where order_id = p_order.order_id;
end
$$;
revoke execute on function app.settle_order(app.polar_orders) from public, anon, authenticated;

-- api.apply_order_event: an order of credits was paid, or refunded -------------------------------------------
-- `p_credits_milli` comes with the payment, `p_refunded_ppm` (millionths of its price, in all) with a refund, which
-- may come first. Returns {"outcome": "applied" | "duplicate"}.
create function api.apply_order_event(
  p_webhook_id text, p_kind text, p_order_id text, p_subject text, p_credits_milli bigint, p_refunded_ppm int,
  p_modified_at timestamptz
)
returns jsonb
language plpgsql
security definer
set search_path = ''
as $$
declare
  v_account_id uuid;
  v_order app.polar_orders;
begin
  if not app.claim_polar_event(p_webhook_id, p_kind, p_order_id, p_modified_at) then
    return jsonb_build_object('outcome', 'duplicate');
  end if;
  v_account_id := app.open_customer(p_subject);
  insert into app.polar_orders as o (order_id, account_id, credits_milli, refunded_ppm)
  values (p_order_id, v_account_id, p_credits_milli, coalesce(p_refunded_ppm, 0))
  on conflict (order_id) do update set
    credits_milli = coalesce(o.credits_milli, excluded.credits_milli),
    refunded_ppm = greatest(o.refunded_ppm, excluded.refunded_ppm)
  returning o.* into v_order;
  if v_order.credits_milli is not null then
    perform app.settle_order(v_order);
  end if;
  return app.finish_polar_event(p_webhook_id, 'applied');
end
$$;
revoke execute on function api.apply_order_event(text, text, text, text, bigint, int, timestamptz)
  from public, anon, authenticated;
grant execute on function api.apply_order_event(text, text, text, text, bigint, int, timestamptz)
  to service_role;

-- api.record_polar_event: an event that changes nothing here -------------------------------------------------
create function api.record_polar_event(p_webhook_id text, p_kind text, p_object_id text, p_outcome text)
returns jsonb
language plpgsql
security definer
set search_path = ''
as $$
begin
  if not app.claim_polar_event(p_webhook_id, p_kind, p_object_id, null) then
    return jsonb_build_object('outcome', 'duplicate');
  end if;
  return app.finish_polar_event(p_webhook_id, p_outcome);
end
$$;
revoke execute on function api.record_polar_event(text, text, text, text) from public, anon, authenticated;
grant execute on function api.record_polar_event(text, text, text, text) to service_role;

-- api.check_seats: may the caller's subscription have this many? ---------------------------------------------
-- Asked before the provider is. Returns {"polar_subscription_id"}.
create function api.check_seats(p_subject text, p_email text, p_seats int)
returns jsonb
language plpgsql
security definer
set search_path = ''
as $$
declare
  v_account_id uuid := app.open_user(p_subject, p_email);
  v_subscription app.subscriptions;
  v_taken int;
begin
  select * into v_subscription from app.subscriptions where account_id = v_account_id and status <> 'canceled';
  if v_subscription.polar_subscription_id is null then
    perform app.refuse('no_polar_subscription');
  elsif v_subscription.plan not in ('growth', 'pro', 'enterprise') then
    perform app.refuse('plan_does_not_support_seats', jsonb_build_object('plan', v_subscription.plan));
  end if;
  select max(app.count_seats(id)) into v_taken from app.teams where account_id = v_account_id;
  if v_taken > p_seats then
    perform app.refuse('seats_in_use', jsonb_build_object('seats_taken', v_taken));
  end if;
  return jsonb_build_object('polar_subscription_id', v_subscription.polar_subscription_id);
end
$$;
revoke execute on function api.check_seats(text, text, int) from public, anon, authenticated;
grant execute on function api.check_seats(text, text, int) to service_role;

-- api.set_seat_count: mirror what the provider has agreed to -------------------------------------------------
create function api.set_seat_count(p_polar_subscription_id text, p_seats int)
returns jsonb
language plpgsql
security definer
set search_path = ''
as $$
begin
  update app.subscriptions
     set seat_count = p_seats, included_seats = coalesce(included_seats, app.included_seats(plan)), updated_at = now()
   where polar_subscription_id = p_polar_subscription_id and status <> 'canceled';
  return jsonb_build_object('seats', p_seats);
end
$$;
revoke execute on function api.set_seat_count(text, int) from public, anon, authenticated;
grant execute on function api.set_seat_count(text, int) to service_role;
