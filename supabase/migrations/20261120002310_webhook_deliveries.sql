-- How the deliveries of webhooks are handed to workers, and what becomes of them.
--
-- A worker claims, sends, and says what came of it. At most one delivery of a webhook is under way, so an endpoint that
-- is slow or dead occupies one worker and delays nobody else. Whoever locks both locks the webhook first.

-- app.disable_webhook: stop, and tell the owner --------------------------------------------------------------
create function app.disable_webhook(p_webhook_id uuid, p_reason text)
returns void
language plpgsql
set search_path = ''
as $$
declare
  v_webhook app.webhooks;
begin
  update app.webhooks set state = 'disabled', disabled_reason = p_reason
   where id = p_webhook_id and state = 'active' and deleted_at is null
  returning * into v_webhook;
  if not found then
    return;
  end if;
  update app.webhook_deliveries set status = 'canceled' where webhook_id = p_webhook_id and status = 'pending';
  -- The host only: a path may hold a secret of the owner's.
  perform app.queue_mail('webhook_disabled', a.email, p_webhook_id, jsonb_build_object(
      'host', substring(v_webhook.url from '^[a-z]+://([^/?#]+)'),
      'reason', p_reason,
      'failing_since', app.iso(v_webhook.failing_since)))
     from app.accounts a
    where a.id = v_webhook.account_id and a.email is not null;
end
$$;
revoke execute on function app.disable_webhook(uuid, text) from public, anon, authenticated;

-- api.claim_deliveries: take deliveries that are due, at most one of each webhook ----------------------------
-- Whoever claims has `p_lease_seconds` to call api.finish_delivery; after that the delivery is due again, with the next
-- number of attempt. A repeated call claims others. Steps from webhook to webhook through the index of what is
-- pending, so that a long backlog of one costs the others nothing. `previous_secret` signs too during a rotation.
create function api.claim_deliveries(p_limit int, p_lease_seconds int)
returns table (
  id uuid, webhook_id uuid, url text, event_type text, payload text, attempt int, secret text, previous_secret text
)
language sql
security definer
set search_path = ''
as $$
  -- A delivery whose worker dies each time must come to an end as well.
  update app.webhook_deliveries d
     set status = 'exhausted', last_error = 'never_finished', lease_expires_at = null
   where d.id in (
     select o.id
       from app.webhook_deliveries o
      where o.status = 'pending' and o.lease_expires_at <= now() and o.attempts >= app.webhook_attempts_max()
        for no key update skip locked
   );

  with recursive waiting as (
    (select d.webhook_id from app.webhook_deliveries d where d.status = 'pending' order by d.webhook_id limit 1)
    union all
    select (
      select d.webhook_id from app.webhook_deliveries d
       where d.status = 'pending' and d.webhook_id > w.webhook_id order by d.webhook_id limit 1
    )
      from waiting w
     where w.webhook_id is not null
  ),
  due as (
    select w.id as webhook_id, d.id
      from waiting
      join app.webhooks w on w.id = waiting.webhook_id
     cross join lateral (
       select o.id, o.next_attempt_at
         from app.webhook_deliveries o
        where o.webhook_id = w.id and o.status = 'pending' and o.next_attempt_at <= now()
        order by o.next_attempt_at, o.seq
        limit 1
     ) d
     where w.state = 'active' and w.deleted_at is null and (w.busy_until is null or w.busy_until <= now())
     order by d.next_attempt_at
     limit p_limit
       for no key update of w skip locked
  ),
  -- Looks again at each row as it is now: it may have been finished since this query began.
  claimed as (
    update app.webhook_deliveries d
       set attempts = d.attempts + 1,
           lease_expires_at = now() + pg_catalog.make_interval(secs => p_lease_seconds)
      from due
     where d.id = due.id and d.status = 'pending' and d.next_attempt_at <= now()
       and (d.lease_expires_at is null or d.lease_expires_at <= now())
    returning d.*
  )
  update app.webhooks w
     set busy_until = claimed.lease_expires_at
    from claimed
   where w.id = claimed.webhook_id
  returning claimed.id, w.id, w.url, claimed.event_type, claimed.payload, claimed.attempts,
    'whsec_' || encode(w.secret, 'base64'),
    case when w.previous_expires_at > now() then 'whsec_' || encode(w.previous_secret, 'base64') end
$$;
revoke execute on function api.claim_deliveries(int, int) from public, anon, authenticated;
grant execute on function api.claim_deliveries(int, int) to service_role;

-- api.finish_delivery: what became of an attempt -------------------------------------------------------------
-- A status of 2xx delivers, whoever says so and however late. Anything else waits for its next attempt, never sooner
-- than the endpoint asked for (a day at most), or is exhausted when it was the last; only the attempt that holds the
-- lease may say that. 410 disables the webhook, and so do five days without a success. `p_status` is null when
-- there was no answer; `p_error` is a short code. Returns {"state": …, "webhook_disabled": …}, null when unknown.
create function api.finish_delivery(
  p_delivery_id uuid, p_attempt int, p_status int default null, p_error text default null,
  p_retry_after_seconds int default null
)
returns jsonb
language plpgsql
security definer
set search_path = ''
as $$
declare
  v_webhook app.webhooks;
  v_delivery app.webhook_deliveries;
  v_holds_lease boolean;
  v_reason text;
begin
  select w.* into v_webhook
    from app.webhooks w
   where w.id = (select d.webhook_id from app.webhook_deliveries d where d.id = p_delivery_id)
     for no key update;
  select * into v_delivery from app.webhook_deliveries where id = p_delivery_id for no key update;
  if not found then
    return null;
  end if;
  v_holds_lease := v_delivery.attempts = p_attempt and v_delivery.lease_expires_at is not null;

  if p_status between 200 and 299 then
    update app.webhook_deliveries
       set status = 'delivered', delivered_at = now(), last_status = p_status, last_error = null
     where id = p_delivery_id and status <> 'delivered';
    update app.webhooks set failing_since = null where id = v_webhook.id and failing_since is not null;
  elsif v_holds_lease and v_delivery.status = 'pending' then
    update app.webhook_deliveries
       set last_status = p_status,
           last_error = p_error,
           next_attempt_at = now() + greatest(app.webhook_pause(attempts),
             make_interval(secs => least(coalesce(p_retry_after_seconds, 0), 86400))),
           status = case when attempts >= app.webhook_attempts_max() then 'exhausted' else 'pending' end
     where id = p_delivery_id;
    update app.webhooks set failing_since = coalesce(failing_since, now()) where id = v_webhook.id
    returning * into v_webhook;
    v_reason := case
      when p_status = 410 then 'gone'
      when v_webhook.failing_since <= now() - interval '5 days' then 'failing'
    end;
    if v_reason is not null then
      perform app.disable_webhook(v_webhook.id, v_reason);
    end if;
  end if;
  if v_holds_lease then
    update app.webhook_deliveries set lease_expires_at = null where id = p_delivery_id;
    update app.webhooks set busy_until = null where id = v_webhook.id;
  end if;
  -- What nobody will ask about any more.
  delete from app.webhook_deliveries
   where webhook_id = v_webhook.id and status <> 'pending' and created_at < now() - interval '30 days'
     and id <> p_delivery_id;
  select * into v_delivery from app.webhook_deliveries where id = p_delivery_id;
  return jsonb_build_object('state', v_delivery.status, 'webhook_disabled', v_reason is not null);
end
$$;
revoke execute on function api.finish_delivery(uuid, int, int, text, int) from public, anon, authenticated;
grant execute on function api.finish_delivery(uuid, int, int, text, int) to service_role;
