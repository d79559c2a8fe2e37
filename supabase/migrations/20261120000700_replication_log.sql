-- The replication log: an append-only, gapless sequence of encrypted blocks for each agent.
--
-- A request is one transaction: all of its blocks are written or none, and it is charged for exactly those that
-- it wrote. The log's row is locked first, so appends to one log come one after another, and a reader can never
-- see a block before its predecessors. Spec 2.3, 2.4 and 4.2.
--
-- Lock order: the log's row, then the account's, then the cycle's.

create table app.logs (
  id bigint generated always as identity primary key,
  owner_id uuid not null references app.owners (id) on delete cascade,
  -- Whose log it is: the owner itself, or one of a team's members.
  member_id uuid not null references app.accounts (id) on delete cascade,
  -- Null only inside the transaction that makes the log.
  first_sequence bigint check (first_sequence in (0, 1)),
  head_sequence bigint check (head_sequence >= first_sequence),
  merkle_root bytea check (octet_length(merkle_root) = 32),
  total_bytes bigint not null default 0,
  -- Requests that wrote something, and the milliseconds that the server spent on them.
  sync_ops bigint not null default 0,
  sync_ms double precision not null default 0,
  updated_at timestamptz not null default now(),
  unique (owner_id, member_id),
  check (num_nulls(first_sequence, head_sequence, merkle_root) in (0, 3))
) with (fillfactor = 50);

create table app.log_entries (
  log_id bigint not null references app.logs (id) on delete cascade,
  sequence_number bigint not null check (sequence_number >= 0),
  block_hash bytea not null check (octet_length(block_hash) = 32),
  ciphertext bytea not null check (octet_length(ciphertext) between 1 and 262144),
  merkle_root bytea not null check (octet_length(merkle_root) = 32),
  -- What the client may say about a block: shown by GET /envelopes.
  payload_hash bytea check (octet_length(payload_hash) = 32),
  client_timestamp text,
  created_at timestamptz not null default now(),
  primary key (log_id, sequence_number)
);
-- Ciphertext does not compress; do not try.
alter table app.log_entries alter column ciphertext set storage external;

create index logs_by_member on app.logs (member_id);

alter table app.logs enable row level security;
alter table app.log_entries enable row level security;

-- app.refuse_gap: the sequence is not the one that comes next ------------------------------------------------
create function app.refuse_gap(p_log app.logs)
returns void
language plpgsql
set search_path = ''
as $$
begin
  perform app.refuse('sequence_gap', jsonb_build_object(
    'expected_sequence', coalesce(p_log.head_sequence + 1, 0), 'head', p_log.head_sequence,
    'conflicts', '[]'::jsonb));
end
$$;
revoke execute on function app.refuse_gap(app.logs) from public, anon, authenticated;

-- app.count_registered: how many of the request's first blocks are in the log already -------------------------
-- Refuses the whole request when one of them has another hash, or lies before the log's first entry.
create function app.count_registered(p_log app.logs, p_sequences bigint[], p_block_hashes bytea[])
returns int
language plpgsql
stable
set search_path = ''
as $$
declare
  v_at_or_before_head int;
  v_registered int;
  v_conflicts jsonb;
begin
  select count(*), count(e.sequence_number),
         jsonb_agg(jsonb_build_object(
           'sequence_number', e.sequence_number,
           'existing_block_hash', encode(e.block_hash, 'hex'),
           'attempted_block_hash', encode(n.block_hash, 'hex')
         ) order by e.sequence_number) filter (where e.block_hash <> n.block_hash)
    into v_at_or_before_head, v_registered, v_conflicts
    from unnest(p_sequences, p_block_hashes) as n (sequence_number, block_hash)
    left join app.log_entries e on e.log_id = p_log.id and e.sequence_number = n.sequence_number
   where n.sequence_number <= p_log.head_sequence;
  if v_conflicts is not null then
    perform app.refuse('split_brain_detected', jsonb_build_object('conflicts', v_conflicts));
  elsif v_registered < v_at_or_before_head then
    perform app.refuse_gap(p_log);
  end if;
  return v_registered;
end
$$;
revoke execute on function app.count_registered(app.logs, bigint[], bytea[]) from public, anon, authenticated;

-- api.append_log: write blocks after the head ----------------------------------------------------------------
-- The arrays run in parallel, sorted by sequence without duplicates; every hash was checked against its block.
-- `p_payload_hashes` and `p_timestamps` may be null. `p_elapsed_ms` is what the service spent before this call.
-- Returns {"idempotent": true} when every block is registered already, else
-- {"accepted": blocks written, "sequence_number": the new head, "merkle_root": the request's root, "told": whether
-- webhooks wait to be delivered}.
create function api.append_log(
  p_credential_kind text, p_credential_hash bytea, p_device_hash bytea,
  p_sequences bigint[], p_block_hashes bytea[], p_blocks bytea[],
  p_payload_hashes bytea[], p_timestamps text[], p_merkle_root bytea,
  p_quota_bytes bigint, p_elapsed_ms double precision
)
returns jsonb
language plpgsql
security definer
set search_path = ''
set lock_timeout = '5s'
set plan_cache_mode = force_generic_plan -- arrays would have every statement planned anew at each call
as $$
declare
  v_principal app.principal := app.admit(p_credential_kind, p_credential_hash);
  v_count int := cardinality(p_sequences);
  v_registered int := 0;
  v_log app.logs;
  v_bytes bigint;
  v_told boolean;
begin
  select * into v_log from app.logs
   where owner_id = v_principal.owner_id and member_id = v_principal.member_id for no key update;
  if not found then
    insert into app.logs (owner_id, member_id) values (v_principal.owner_id, v_principal.member_id)
      on conflict do nothing;
    select * into v_log from app.logs
     where owner_id = v_principal.owner_id and member_id = v_principal.member_id for no key update;
  end if;

  if v_log.head_sequence is null then
    if p_sequences[1] not in (0, 1) or p_sequences[v_count] <> p_sequences[1] + v_count - 1 then
      perform app.refuse_gap(v_log);
    end if;
  else
    if p_sequences[1] <= v_log.head_sequence then
      v_registered := app.count_registered(v_log, p_sequences, p_block_hashes);
    end if;
    if v_registered = v_count then
      return jsonb_build_object('idempotent', true);
    end if;
    if p_sequences[v_count] <> v_log.head_sequence + v_count - v_registered then
      perform app.refuse_gap(v_log);
    end if;
  end if;

  with written as (
    insert into app.log_entries (
      log_id, sequence_number, block_hash, ciphertext, payload_hash, client_timestamp, merkle_root
    )
    select v_log.id, n.sequence_number, n.block_hash, n.block, n.payload_hash, n.at, p_merkle_root
      from unnest(p_sequences, p_block_hashes, p_blocks, p_payload_hashes, p_timestamps) with ordinality
           as n (sequence_number, block_hash, block, payload_hash, at, position)
     where n.position > v_registered
    returning octet_length(ciphertext) as bytes
  )
  select sum(bytes) into v_bytes from written;

  perform app.see_device(v_principal.owner_id, p_device_hash);
  update app.logs
     set first_sequence = coalesce(first_sequence, p_sequences[1]),
         head_sequence = p_sequences[v_count],
         merkle_root = p_merkle_root,
         total_bytes = total_bytes + v_bytes,
         sync_ops = sync_ops + 1,
         sync_ms = sync_ms + p_elapsed_ms
           + extract(epoch from clock_timestamp() - statement_timestamp()) * 1000,
         updated_at = now()
   where id = v_log.id;
  perform app.take_bytes(v_principal, v_bytes, p_quota_bytes, 'replication', null);
  perform app.count_usage(
    v_principal.owner_id, v_principal.account_id, 1, v_count - v_registered, 0, v_bytes);
  v_told := app.emit_event(v_principal.account_id, 'replication.appended', jsonb_build_object(
    'accepted', v_count - v_registered, 'sequence_number', p_sequences[v_count], 'bytes', v_bytes));
  return jsonb_build_object(
    'accepted', v_count - v_registered,
    'sequence_number', p_sequences[v_count],
    'merkle_root', encode(p_merkle_root, 'hex'),
    'told', v_told);
end
$$;
revoke execute on function api.append_log(
  text, bytea, bytea, bigint[], bytea[], bytea[], bytea[], text[], bytea, bigint, double precision
) from public, anon, authenticated;
grant execute on function api.append_log(
  text, bytea, bytea, bigint[], bytea[], bytea[], bytea[], text[], bytea, bigint, double precision
) to service_role;

-- api.read_head: where the log stands (spec 2.4) --------------------------------------------------------------
create function api.read_head(p_credential_kind text, p_credential_hash bytea)
returns jsonb
language plpgsql
stable
security definer
set search_path = ''
as $$
declare
  v_principal app.principal := app.identify(p_credential_kind, p_credential_hash);
  v_log app.logs;
begin
  select * into v_log from app.logs
   where owner_id = v_principal.owner_id and member_id = v_principal.member_id;
  if not found then
    perform app.refuse('no_replication_entries');
  end if;
  return jsonb_build_object(
    'sequence_number', v_log.head_sequence,
    'merkle_root', encode(v_log.merkle_root, 'hex'),
    'updated_at', app.iso(v_log.updated_at));
end
$$;
revoke execute on function api.read_head(text, bytea) from public, anon, authenticated;
grant execute on function api.read_head(text, bytea) to service_role;

-- api.read_log: a run of entries ------------------------------------------------------------------------------
-- Entries after `p_since` and before `p_before` in order: at most `p_limit`, and only as many as fit into
-- `p_bytes_max` of ciphertext, but always one. Entries never change and have no gaps, so a caller may fetch a
-- long run in pieces. Each row carries the log's bounds, from which the whole run's length is known at once.
create function api.read_log(
  p_credential_kind text, p_credential_hash bytea, p_since bigint, p_before bigint, p_limit int,
  p_bytes_max bigint
)
returns table (
  sequence_number bigint, block_hash bytea, ciphertext bytea, merkle_root bytea, payload_hash bytea,
  client_timestamp text, created_at text, first_sequence bigint, head_sequence bigint
)
language plpgsql
stable
security definer
set search_path = ''
as $$
declare
  v_principal app.principal := app.identify(p_credential_kind, p_credential_hash);
  v_log app.logs;
begin
  select * into v_log from app.logs l
   where l.owner_id = v_principal.owner_id and l.member_id = v_principal.member_id;
  return query
    select e.sequence_number, e.block_hash, e.ciphertext, e.merkle_root, e.payload_hash,
           e.client_timestamp, app.iso(e.created_at), v_log.first_sequence, v_log.head_sequence
      from (
        -- The size of a stored value is read without fetching the value.
        select n.*, sum(octet_length(n.ciphertext)) over (order by n.sequence_number) as bytes_so_far
          from app.log_entries n
         where n.log_id = v_log.id and n.sequence_number > p_since
           and n.sequence_number < p_before
         order by n.sequence_number
         limit p_limit
      ) e
     where e.bytes_so_far <= p_bytes_max or e.bytes_so_far = octet_length(e.ciphertext)
     order by e.sequence_number;
end
$$;
revoke execute on function api.read_log(text, bytea, bigint, bigint, int, bigint)
  from public, anon, authenticated;
grant execute on function api.read_log(text, bytea, bigint, bigint, int, bigint) to service_role;
