-- Appends of several requests in one transaction: what makes many small writes cheap.
--
-- Most requests are plain: the credential is good, the log exists, the blocks come right after its head, and there is
-- credit for them. `api.append_logs` writes all plain requests of a batch with one statement and one flush, whatever
-- their number. It refuses nothing, and waits for no log: a request that is not plain (a first append, a gap, a
-- conflict, little credit, a log that somebody else is writing to) is passed over without a trace, and its caller
-- takes it to `api.append_log`, which alone says what is wrong. So no request can spoil another one's.
--
-- Lock order as everywhere: logs, then accounts, then cycles; accounts and cycles in the order of their ids.

-- api.append_logs: write the plain ones of several requests --------------------------------------------------
-- The first nine arrays have a place for each request: `p_firsts` and `p_lasts` are its first and last sequence,
-- `p_counts` the number of its blocks, `p_bytes` the bytes in them. The others have a place for each block, the
-- requests one after another and each one's blocks in order without repetitions; `p_requests` says whose a block is,
-- from 1. `p_payload_hashes` and `p_timestamps` may be null. Of several requests for one log at most one is written.
-- Returns {"written": places of the requests that are written, "known": of those that were in the log already,
-- "told": of those that webhooks wait to be told of}. The others are as if they had never been sent.
create function api.append_logs(
  p_credential_kinds text[], p_credential_hashes bytea[], p_device_hashes bytea[], p_merkle_roots bytea[],
  p_elapsed_ms double precision[], p_firsts bigint[], p_lasts bigint[], p_counts int[], p_bytes bigint[],
  p_requests int[], p_sequences bigint[], p_block_hashes bytea[], p_blocks bytea[],
  p_payload_hashes bytea[], p_timestamps text[], p_quota_bytes bigint
)
returns jsonb
language plpgsql
security definer
set search_path = ''
-- An account that somebody holds for long must not hold up the others: they go by themselves then.
set lock_timeout = '1s'
set plan_cache_mode = force_generic_plan
-- The plan is kept while tables grow from nothing to millions of rows: it has to be the one for many.
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
  v_bytes_sent bigint := (select sum(b) from unnest(p_bytes) b);
  -- Each request's price is rounded up by itself.
  v_cost_of_all bigint := app.price_milli(v_bytes_sent) + cardinality(p_counts);
  v_written int[];
  v_keys uuid[];
  v_accounts uuid[];
  v_exact boolean;
begin
  with next as (
    select r.*, case when r.metered then app.price_milli(r.bytes) else 0 end as cost, l.id as log_id
      from rows from (
             unnest(p_device_hashes, p_merkle_roots, p_elapsed_ms, p_firsts, p_lasts, p_counts, p_bytes),
             app.find_principals(p_credential_kinds, p_credential_hashes)
           ) with ordinality as r (
             device_hash, merkle_root, elapsed_ms, first_sequence, last_sequence, blocks, bytes,
             owner_id, account_id, member_id, metered, role, key_id, refusal, place)
      join app.logs l on l.owner_id = r.owner_id and l.member_id = r.member_id
      join app.accounts a on a.id = r.account_id
     where r.refusal is null and r.role <> 'read'
       and r.first_sequence = l.head_sequence + 1 and r.last_sequence = l.head_sequence + r.blocks
       -- Room for the whole batch, so that whose turn it is does not matter. A charge that may end below what
       -- `credits.low` warns of is left to who can tell of it.
       and case
         when not r.metered then a.stored_bytes + v_bytes_sent <= p_quota_bytes
         when a.credits_milli < 100000 then v_cost_of_all <= a.credits_milli
         else v_cost_of_all <= a.credits_milli - 100000
       end
       and (r.device_hash is null or exists (
         select from app.devices d
          where d.owner_id = r.owner_id and d.device_hash = r.device_hash
            and d.last_seen_at > now() - interval '1 hour'))
       for no key update of l skip locked
  ), plain as materialized (
    select distinct on (log_id) * from next order by log_id, place
  ), written as (
    insert into app.log_entries (
      log_id, sequence_number, block_hash, ciphertext, payload_hash, client_timestamp, merkle_root
    )
    select p.log_id, b.sequence, b.block_hash, b.block, b.payload_hash, b.at, p.merkle_root
      from (
        select unnest(p_requests) as request, unnest(p_sequences) as sequence, unnest(p_block_hashes) as block_hash,
               unnest(p_blocks) as block, unnest(p_payload_hashes) as payload_hash, unnest(p_timestamps) as at
      ) b
      join plain p on p.place = b.request
    returning octet_length(ciphertext) as bytes
  ), moved as (
    update app.logs l
       set head_sequence = p.last_sequence,
           merkle_root = p.merkle_root,
           total_bytes = l.total_bytes + p.bytes,
           sync_ops = l.sync_ops + 1,
           sync_ms = l.sync_ms + p.elapsed_ms
             + extract(epoch from clock_timestamp() - statement_timestamp()) * 1000,
           updated_at = now()
      from plain p
     where l.id = p.log_id
  ), ledger as (
    insert into app.credit_ledger (account_id, kind, amount_milli, bytes)
    select account_id, 'replication', -cost, bytes from plain where metered
  ), charged as (
    update app.accounts a
       set credits_milli = a.credits_milli - c.cost, stored_bytes = a.stored_bytes + c.bytes
      from (
        select account_id, bool_and(metered) as metered, sum(cost)::bigint as cost, sum(bytes)::bigint as bytes
          from plain group by account_id order by account_id
      ) c
     where a.id = c.account_id and a.credits_milli >= c.cost
       and (c.metered or a.stored_bytes + c.bytes <= p_quota_bytes)
    returning a.id, a.period_start
  ), counted as (
    insert into app.usage_cycles as u (owner_id, cycle_start, sync_ops, store_ops, bytes_stored)
    select p.owner_id, app.cycle_start(c.period_start), count(*), sum(p.blocks), sum(p.bytes)::bigint
      from plain p join charged c on c.id = p.account_id
     group by p.owner_id, c.period_start
     order by p.owner_id
    on conflict (owner_id, cycle_start) do update
      set sync_ops = u.sync_ops + excluded.sync_ops,
          store_ops = u.store_ops + excluded.store_ops,
          bytes_stored = u.bytes_stored + excluded.bytes_stored
  )
  select coalesce(array_agg(p.place), '{}'), array_agg(p.key_id), array_agg(p.account_id),
         count(distinct p.account_id) = (select count(*) from charged)
           and coalesce(sum(p.bytes), 0) = (select coalesce(sum(bytes), 0) from written)
           and coalesce(sum(p.blocks), 0) = (select count(*) from written)
    into v_written, v_keys, v_accounts, v_exact
    from plain p;
  if not v_exact then
    -- Somebody spent what was left between the look at it and the charge. Nothing is written; each goes by itself.
    perform app.refuse('service_unavailable');
  end if;

  if exists (
    select from app.api_keys
     where id = any (v_keys) and last_used_at is distinct from date_trunc('minute', now())
  ) then
    perform app.touch_key(k) from unnest(v_keys) k where k is not null;
  end if;
  return jsonb_build_object(
    'written', to_jsonb(v_written),
    'known', case when cardinality(v_written) = cardinality(p_counts) then '[]' else app.find_known(
      p_credential_kinds, p_credential_hashes, p_requests, p_sequences, p_block_hashes, v_written) end,
    'told', case when not exists (
      select from app.webhooks where account_id = any (v_accounts) and state = 'active' and deleted_at is null
    ) then '[]' else app.tell_appends(v_written, v_accounts, p_lasts, p_counts, p_bytes) end);
end
$$;
revoke execute on function api.append_logs(
  text[], bytea[], bytea[], bytea[], double precision[], bigint[], bigint[], int[], bigint[], int[], bigint[], bytea[],
  bytea[], bytea[], text[], bigint
) from public, anon, authenticated;
grant execute on function api.append_logs(
  text[], bytea[], bytea[], bytea[], double precision[], bigint[], bigint[], int[], bigint[], int[], bigint[], bytea[],
  bytea[], bytea[], text[], bigint
) to service_role;

-- app.find_known: places of the requests whose every block is in the log, with the same hash ------------------
-- Takes no lock: what is in a log never changes. `p_written` are places that need no look.
create function app.find_known(
  p_credential_kinds text[], p_credential_hashes bytea[], p_requests int[], p_sequences bigint[],
  p_block_hashes bytea[], p_written int[]
)
returns jsonb
language plpgsql
set search_path = ''
as $$
begin
  return coalesce((
    select jsonb_agg(f.place)
      from app.find_principals(p_credential_kinds, p_credential_hashes) with ordinality as f (
             owner_id, account_id, member_id, metered, role, key_id, refusal, place)
      join app.logs l on l.owner_id = f.owner_id and l.member_id = f.member_id
     where f.place <> all (p_written) and f.refusal is null and f.role <> 'read'
       and not exists (
         select from unnest(p_requests, p_sequences, p_block_hashes) as b (request, sequence, block_hash)
           left join app.log_entries e on e.log_id = l.id and e.sequence_number = b.sequence
          where b.request = f.place and e.block_hash is distinct from b.block_hash
       )
  ), '[]');
end
$$;
revoke execute on function app.find_known(text[], bytea[], int[], bigint[], bytea[], int[])
  from public, anon, authenticated;

-- app.tell_appends: the events of a batch, for the accounts that have webhooks --------------------------------
-- Returns the places of the requests that somebody will be told of.
create function app.tell_appends(
  p_written int[], p_accounts uuid[], p_lasts bigint[], p_counts int[], p_bytes bigint[]
)
returns jsonb
language plpgsql
set search_path = ''
as $$
declare
  v_request record;
  v_told int[] := '{}';
begin
  for v_request in
    select w.place, w.account_id from unnest(p_written, p_accounts) as w (place, account_id) order by w.place
  loop
    if app.emit_event(v_request.account_id, 'replication.appended', jsonb_build_object(
      'accepted', p_counts[v_request.place],
      'sequence_number', p_lasts[v_request.place],
      'bytes', p_bytes[v_request.place])) then
      v_told := v_told || v_request.place;
    end if;
  end loop;
  return to_jsonb(v_told);
end
$$;
revoke execute on function app.tell_appends(int[], uuid[], bigint[], int[], bigint[]) from public, anon, authenticated;
