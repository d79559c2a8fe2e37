-- Webhooks: what happens to an account is told to addresses that its owner registered.
--
-- An event is written to `app.webhook_deliveries` in the transaction of the change that it tells of, one row for each
-- webhook that wants it, so a change that is undone tells nothing and one that stands is told at least once. Workers
-- claim rows under a lease, one at a time for each webhook, and try again on the schedule of Standard Webhooks. A
-- webhook's secret signs every delivery, so it has to be kept as it is: it is in reach of the owner of these tables
-- and of `api.claim_deliveries` alone, and shown to people once.

-- Tables -----------------------------------------------------------------------------------------------------
create table app.webhooks (
  id uuid primary key default gen_random_uuid(),
  account_id uuid not null references app.accounts (id) on delete cascade,
  url text not null check (char_length(url) between 1 and 2048),
  -- Names of events, or `*`.
  events text[] not null check (cardinality(events) between 1 and 64),
  -- Nothing is left to sign with once a webhook is deleted.
  secret bytea unique check (octet_length(secret) = 32),
  previous_secret bytea check (octet_length(previous_secret) = 32),
  previous_expires_at timestamptz,
  state text not null default 'active' check (state in ('active', 'disabled')),
  disabled_reason text check (disabled_reason in ('gone', 'failing')),
  -- First failure since the last success.
  failing_since timestamptz,
  -- While a delivery is under way no other is begun.
  busy_until timestamptz,
  created_at timestamptz not null default now(),
  -- A deleted webhook stays for a day, so that a repeated deletion finds it.
  deleted_at timestamptz,
  check ((state = 'disabled') = (disabled_reason is not null)),
  check ((previous_secret is null) = (previous_expires_at is null)),
  check ((deleted_at is null) = (secret is not null))
);
create index webhooks_by_account on app.webhooks (account_id, created_at);

-- `id` is the header `webhook-id` of every attempt; `payload` the very text that is signed and sent.
create table app.webhook_deliveries (
  id uuid primary key default gen_random_uuid(),
  seq bigint generated always as identity,
  webhook_id uuid not null references app.webhooks (id) on delete cascade,
  event_type text not null check (event_type ~ '^[a-z_]+\.[a-z_]+$'),
  payload text not null check (octet_length(payload) <= 20480),
  status text not null default 'pending' check (status in ('pending', 'delivered', 'exhausted', 'canceled')),
  attempts int not null default 0 check (attempts >= 0),
  next_attempt_at timestamptz not null default now(),
  lease_expires_at timestamptz,
  last_status int check (last_status between 100 and 599),
  -- A code: its alphabet has no room for an address or for what an endpoint said.
  last_error text check (last_error ~ '^[a-z0-9_]{1,64}$'),
  created_at timestamptz not null default now(),
  delivered_at timestamptz,
  check ((status = 'delivered') = (delivered_at is not null))
);
create index webhook_deliveries_by_webhook on app.webhook_deliveries (webhook_id, created_at, seq);
create index webhook_deliveries_due on app.webhook_deliveries (webhook_id, next_attempt_at, seq)
  where status = 'pending';
create index webhook_deliveries_leased on app.webhook_deliveries (lease_expires_at)
  where status = 'pending' and lease_expires_at is not null;

alter table app.webhooks enable row level security;
alter table app.webhook_deliveries enable row level security;

-- app.webhook_attempts_max: how often a delivery is tried ----------------------------------------------------
create function app.webhook_attempts_max()
returns int
language sql
immutable
parallel safe
set search_path = ''
as $$
  select 10
$$;
revoke execute on function app.webhook_attempts_max() from public, anon, authenticated;

-- app.webhook_pause: how long to wait after a failed attempt -------------------------------------------------
-- The schedule of Standard Webhooks, about three days in all, a tenth more or less.
create function app.webhook_pause(p_attempts int)
returns interval
language sql
volatile
set search_path = ''
as $$
  select (array['5 s', '5 min', '30 min', '2 h', '5 h', '10 h', '14 h', '20 h', '24 h']::interval[])
    [least(greatest(p_attempts, 1), 9)] * (0.9 + random() / 5)
$$;
revoke execute on function app.webhook_pause(int) from public, anon, authenticated;

-- app.webhook_payload: the body that is signed and sent -------------------------------------------------------
create function app.webhook_payload(p_type text, p_data jsonb)
returns text
language plpgsql
stable
set search_path = ''
as $$
begin
  return format('{"type":%s,"timestamp":%s,"data":%s}',
    to_json(p_type), to_json(app.iso(now())), coalesce(p_data, '{}'));
end
$$;
revoke execute on function app.webhook_payload(text, jsonb) from public, anon, authenticated;

-- app.emit_event: tell an account's webhooks what happened ---------------------------------------------------
-- For functions that change something, inside their transaction. Costs one probe of an index when nobody listens.
-- Returns whether somebody does, so that a busy route asks for delivery only then.
-- `p_data` holds ids and counts, never ciphertext, names or addresses. The key share keeps a webhook from being
-- removed between being read and being referred to; it is in nobody's way.
create function app.emit_event(p_account_id uuid, p_type text, p_data jsonb)
returns boolean
language plpgsql
set search_path = ''
as $$
begin
  insert into app.webhook_deliveries (webhook_id, event_type, payload)
  select w.id, p_type, app.webhook_payload(p_type, p_data)
    from app.webhooks w
   where w.account_id = p_account_id and w.state = 'active' and w.deleted_at is null
     and w.events && array['*', p_type]
     for key share of w;
  return found;
end
$$;
revoke execute on function app.emit_event(uuid, text, jsonb) from public, anon, authenticated;

-- app.show_webhook: a webhook as its owner sees it -----------------------------------------------------------
create function app.show_webhook(p_webhook app.webhooks)
returns jsonb
language plpgsql
stable
set search_path = ''
as $$
begin
  return jsonb_build_object(
    'id', p_webhook.id,
    'url', p_webhook.url,
    'events', to_jsonb(p_webhook.events),
    'state', p_webhook.state,
    'disabled_reason', p_webhook.disabled_reason,
    'failing_since', app.iso(p_webhook.failing_since),
    'created_at', app.iso(p_webhook.created_at)
  );
end
$$;
revoke execute on function app.show_webhook(app.webhooks) from public, anon, authenticated;

-- app.own_webhook: the caller's webhook of that id -----------------------------------------------------------
create function app.own_webhook(p_subject text, p_email text, p_webhook_id uuid)
returns app.webhooks
language plpgsql
set search_path = ''
as $$
declare
  v_account_id uuid := app.open_user(p_subject, p_email);
  v_webhook app.webhooks;
begin
  select * into v_webhook from app.webhooks
   where id = p_webhook_id and account_id = v_account_id and deleted_at is null
     for no key update;
  if not found then
    perform app.refuse('webhook_not_found');
  end if;
  return v_webhook;
end
$$;
revoke execute on function app.own_webhook(text, text, uuid) from public, anon, authenticated;

-- api.create_webhook: register an address --------------------------------------------------------------------
-- The service has checked the address and made the secret. The same secret again returns the same webhook.
create function api.create_webhook(p_subject text, p_email text, p_url text, p_events text[], p_secret bytea)
returns jsonb
language plpgsql
security definer
set search_path = ''
set lock_timeout = '5s'
as $$
declare
  v_account_id uuid := app.open_user(p_subject, p_email);
  v_webhook app.webhooks;
begin
  -- Two at once must not both be the twentieth.
  perform from app.accounts where id = v_account_id for no key update;
  select * into v_webhook from app.webhooks where secret = p_secret and account_id = v_account_id;
  if not found then
    delete from app.webhooks where account_id = v_account_id and deleted_at < now() - interval '1 day';
    if (select count(*) from app.webhooks where account_id = v_account_id and deleted_at is null) >= 20 then
      perform app.refuse('webhook_limit_reached', '{"limit": 20}');
    end if;
    insert into app.webhooks (account_id, url, events, secret)
    values (v_account_id, p_url, p_events, p_secret)
    returning * into v_webhook;
  end if;
  return app.show_webhook(v_webhook);
end
$$;
revoke execute on function api.create_webhook(text, text, text, text[], bytea) from public, anon, authenticated;
grant execute on function api.create_webhook(text, text, text, text[], bytea) to service_role;

-- api.list_webhooks: all webhooks of the caller, newest first ------------------------------------------------
create function api.list_webhooks(p_subject text, p_email text)
returns jsonb
language plpgsql
security definer
set search_path = ''
as $$
declare
  v_account_id uuid := app.open_user(p_subject, p_email);
begin
  return coalesce((
    select jsonb_agg(app.show_webhook(w) order by w.created_at desc, w.id)
      from app.webhooks w
     where w.account_id = v_account_id and w.deleted_at is null
  ), '[]');
end
$$;
revoke execute on function api.list_webhooks(text, text) from public, anon, authenticated;
grant execute on function api.list_webhooks(text, text) to service_role;

-- api.delete_webhook: nothing more is sent -------------------------------------------------------------------
-- What waited is canceled; a delivery that is under way may still arrive. Again within a day answers the same.
create function api.delete_webhook(p_subject text, p_email text, p_webhook_id uuid)
returns jsonb
language plpgsql
security definer
set search_path = ''
set lock_timeout = '5s'
as $$
declare
  v_account_id uuid := app.open_user(p_subject, p_email);
begin
  update app.webhooks
     set deleted_at = coalesce(deleted_at, now()), secret = null, previous_secret = null, previous_expires_at = null
   where id = p_webhook_id and account_id = v_account_id;
  if not found then
    perform app.refuse('webhook_not_found');
  end if;
  update app.webhook_deliveries set status = 'canceled' where webhook_id = p_webhook_id and status = 'pending';
  return jsonb_build_object('id', p_webhook_id, 'message', 'webhook_deleted');
end
$$;
revoke execute on function api.delete_webhook(text, text, uuid) from public, anon, authenticated;
grant execute on function api.delete_webhook(text, text, uuid) to service_role;

-- api.rotate_webhook_secret: sign with a new secret, and for a day with the old one too ----------------------
-- The same secret again changes nothing more.
create function api.rotate_webhook_secret(p_subject text, p_email text, p_webhook_id uuid, p_secret bytea)
returns jsonb
language plpgsql
security definer
set search_path = ''
set lock_timeout = '5s'
as $$
declare
  v_webhook app.webhooks := app.own_webhook(p_subject, p_email, p_webhook_id);
begin
  if v_webhook.secret <> p_secret then
    update app.webhooks
       set previous_secret = secret, previous_expires_at = now() + interval '24 hours', secret = p_secret
     where id = p_webhook_id
    returning * into v_webhook;
  end if;
  return jsonb_build_object('id', p_webhook_id, 'previous_expires_at', app.iso(v_webhook.previous_expires_at));
end
$$;
revoke execute on function api.rotate_webhook_secret(text, text, uuid, bytea) from public, anon, authenticated;
grant execute on function api.rotate_webhook_secret(text, text, uuid, bytea) to service_role;

-- api.test_webhook: queue one `webhook.test` for a webhook, whatever it listens to ----------------------------
-- The same delivery id again queues nothing more.
create function api.test_webhook(p_subject text, p_email text, p_webhook_id uuid, p_delivery_id uuid)
returns jsonb
language plpgsql
security definer
set search_path = ''
set lock_timeout = '5s'
as $$
declare
  v_webhook app.webhooks := app.own_webhook(p_subject, p_email, p_webhook_id);
begin
  if v_webhook.state <> 'active' then
    perform app.refuse('webhook_disabled');
  end if;
  insert into app.webhook_deliveries (id, webhook_id, event_type, payload)
  values (p_delivery_id, p_webhook_id, 'webhook.test',
    app.webhook_payload('webhook.test', jsonb_build_object('webhook_id', p_webhook_id)))
  on conflict (id) do nothing;
  return jsonb_build_object('delivery_id', p_delivery_id);
end
$$;
revoke execute on function api.test_webhook(text, text, uuid, uuid) from public, anon, authenticated;
grant execute on function api.test_webhook(text, text, uuid, uuid) to service_role;

-- api.list_deliveries: the newest hundred of a webhook -------------------------------------------------------
create function api.list_deliveries(p_subject text, p_email text, p_webhook_id uuid)
returns jsonb
language plpgsql
security definer
set search_path = ''
as $$
declare
  v_webhook app.webhooks := app.own_webhook(p_subject, p_email, p_webhook_id);
begin
  return jsonb_build_object('webhook_id', v_webhook.id, 'deliveries', coalesce((
    select jsonb_agg(jsonb_build_object(
      'id', d.id, 'event_type', d.event_type, 'status', d.status, 'attempts', d.attempts,
      'next_attempt_at', case when d.status = 'pending' then app.iso(d.next_attempt_at) end,
      'last_status', d.last_status, 'last_error', d.last_error,
      'created_at', app.iso(d.created_at), 'delivered_at', app.iso(d.delivered_at)
    ) order by d.created_at desc, d.seq desc)
      from (
        select * from app.webhook_deliveries
         where webhook_id = v_webhook.id order by created_at desc, seq desc limit 100
      ) d
  ), '[]'));
end
$$;
revoke execute on function api.list_deliveries(text, text, uuid) from public, anon, authenticated;
grant execute on function api.list_deliveries(text, text, uuid) to service_role;
