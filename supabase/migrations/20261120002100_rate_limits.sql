-- Limits on what is worth guessing. Counters of fixed windows, forgotten after a crash: nothing depends on them but
-- patience.

create unlogged table app.rate_limits (
  -- SHA-256 of what is limited and who it is limited for.
  bucket bytea not null check (octet_length(bucket) = 32),
  window_start timestamptz not null,
  hits int not null default 0,
  primary key (bucket, window_start)
);
create index rate_limits_by_age on app.rate_limits (window_start);
alter table app.rate_limits enable row level security;

-- api.hit_rate_limit: count one more ---------------------------------------------------------------------------
-- Returns {"allowed", "retry_after_seconds"}: whether this one is still among the `p_limit` of the running window.
create function api.hit_rate_limit(p_bucket bytea, p_limit int, p_window_seconds int)
returns jsonb
language plpgsql
security definer
set search_path = ''
as $$
declare
  v_window timestamptz := date_bin(make_interval(secs => p_window_seconds), now(), 'epoch');
  v_hits int;
begin
  insert into app.rate_limits as r (bucket, window_start, hits) values (p_bucket, v_window, 1)
  on conflict (bucket, window_start) do update set hits = r.hits + 1
  returning hits into v_hits;
  return jsonb_build_object(
    'allowed', v_hits <= p_limit,
    'retry_after_seconds',
    ceil(extract(epoch from v_window + make_interval(secs => p_window_seconds) - now())));
end
$$;
revoke execute on function api.hit_rate_limit(bytea, int, int) from public, anon, authenticated;
grant execute on function api.hit_rate_limit(bytea, int, int) to service_role;
