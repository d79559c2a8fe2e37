-- Snapshots: numbered, parent-linked checkpoints of an agent, whose ciphertext lies in object storage.
--
-- An upload stands between two transactions. `begin_snapshot` holds the money and records the attempt; the blob
-- is uploaded under a name that no other attempt shares; `confirm_snapshot` makes it the agent's latest. Several
-- attempts may race for one sequence number: equal payload hashes share one row and one debit, different hashes
-- hold one each, the first to be confirmed wins, and the losers get their money back in the same transaction.
-- Whoever dies in between leaves a lease behind. The next write of that agent, or the sweep, settles what has
-- lapsed, so a sequence number is never stuck and no money is lost. Only confirmed rows are ever served.
-- Spec 2.1, 2.2, 3 and 4.1.
--
-- Lock order: the agent's row, then the account's, then the cycle's.

create table app.agents (
  id bigint generated always as identity primary key,
  owner_id uuid not null references app.owners (id) on delete cascade,
  -- Chosen by the client and compared byte by byte.
  agent_id text collate "C" not null,
  -- Sequence of the latest confirmed snapshot; -1 before the first.
  head_sequence bigint not null default -1,
  created_at timestamptz not null default now(),
  unique (owner_id, agent_id)
) with (fillfactor = 80);

create table app.snapshots (
  id uuid primary key default gen_random_uuid(),
  agent_ref bigint not null references app.agents (id) on delete cascade,
  account_id uuid not null references app.accounts (id) on delete cascade,
  sequence_number bigint not null check (sequence_number >= 0),
  status text not null default 'pending' check (status in ('pending', 'confirmed', 'failed')),
  storage_path text not null,
  -- As the client sent it: null exactly at the genesis snapshot.
  parent_path text check ((parent_path is null) = (sequence_number = 0)),
  policy_hash bytea not null check (octet_length(policy_hash) = 32),
  client_payload_hash bytea not null check (octet_length(client_payload_hash) = 32),
  byte_size int not null check (byte_size between 1 and 262144),
  cost_milli bigint not null check (cost_milli >= 0),
  client_timestamp text not null,
  -- Name of the object that holds the ciphertext; known once an attempt has won.
  object_name text,
  created_at timestamptz not null default now(),
  confirmed_at timestamptz,
  check ((status = 'confirmed') = (confirmed_at is not null)),
  check ((status = 'confirmed') = (object_name is not null))
);
create unique index snapshots_confirmed on app.snapshots (agent_ref, sequence_number) where status = 'confirmed';
create unique index snapshots_pending on app.snapshots (agent_ref, sequence_number, client_payload_hash, byte_size)
  where status = 'pending';
create index snapshots_by_agent on app.snapshots (agent_ref, sequence_number);
create index snapshots_by_account on app.snapshots (account_id);

-- One row for each upload that was ever begun: the only way an object gets into the bucket. Rows whose object is
-- not the snapshot's are removed, object first, by the sweep.
create table app.snapshot_attempts (
  id uuid primary key,
  snapshot_id uuid not null references app.snapshots (id) on delete cascade,
  status text not null default 'pending' check (status in ('pending', 'confirmed', 'failed')),
  object_name text not null unique,
  lease_expires_at timestamptz not null,
  created_at timestamptz not null default now()
);
create index snapshot_attempts_by_snapshot on app.snapshot_attempts (snapshot_id);
create index snapshot_attempts_unsettled on app.snapshot_attempts (lease_expires_at) where status <> 'confirmed';

alter table app.agents enable row level security;
alter table app.snapshots enable row level security;
alter table app.snapshot_attempts enable row level security;

-- app.snapshot_receipt: a snapshot as the API shows it (spec 2.1) --------------------------------------------
create function app.snapshot_receipt(p_snapshot app.snapshots, p_agent_id text)
returns jsonb
language sql
stable
set search_path = ''
as $$
  select jsonb_build_object(
    'snapshot_id', p_snapshot.id,
    'agent_id', p_agent_id,
    'sequence_number', p_snapshot.sequence_number,
    'storage_path', p_snapshot.storage_path,
    'byte_size', p_snapshot.byte_size,
    'cost_milli', p_snapshot.cost_milli,
    'client_payload_hash', encode(p_snapshot.client_payload_hash, 'hex'),
    'status', p_snapshot.status,
    'confirmed_at', app.iso(p_snapshot.confirmed_at)
  )
$$;
revoke execute on function app.snapshot_receipt(app.snapshots, text) from public, anon, authenticated;

-- app.fail_snapshot: a pending snapshot that will not be kept ------------------------------------------------
-- The caller holds the agent's lock.
create function app.fail_snapshot(p_snapshot app.snapshots)
returns void
language plpgsql
set search_path = ''
as $$
begin
  update app.snapshots set status = 'failed' where id = p_snapshot.id;
  perform app.give_back_bytes(
    p_snapshot.account_id, p_snapshot.byte_size, p_snapshot.cost_milli, p_snapshot.id);
end
$$;
revoke execute on function app.fail_snapshot(app.snapshots) from public, anon, authenticated;

-- app.settle_agent: give up what has lapsed ------------------------------------------------------------------
-- Fails the attempts whose lease is over, and the pending snapshots that no live attempt works for any more.
-- The caller holds the agent's lock. Returns how many snapshots it failed.
create function app.settle_agent(p_agent_ref bigint)
returns int
language plpgsql
set search_path = ''
as $$
declare
  v_snapshot app.snapshots;
  v_failed int := 0;
begin
  for v_snapshot in
    select * from app.snapshots where agent_ref = p_agent_ref and status = 'pending'
  loop
    update app.snapshot_attempts set status = 'failed'
     where snapshot_id = v_snapshot.id and status = 'pending' and lease_expires_at <= now();
    if not exists (
      select from app.snapshot_attempts where snapshot_id = v_snapshot.id and status = 'pending'
    ) then
      perform app.fail_snapshot(v_snapshot);
      v_failed := v_failed + 1;
    end if;
  end loop;
  return v_failed;
end
$$;
revoke execute on function app.settle_agent(bigint) from public, anon, authenticated;

-- api.begin_snapshot: decide, hold the money, record the attempt ---------------------------------------------
-- Returns {"receipt": …} when this very snapshot is already confirmed (nothing is charged), else
-- {"object_name": …}: where to upload. Repeating a call with the same attempt id changes nothing.
create function api.begin_snapshot(
  p_credential_kind text, p_credential_hash bytea, p_agent_id text, p_sequence_number bigint,
  p_parent_path text, p_policy_hash bytea, p_client_payload_hash bytea, p_byte_size int,
  p_client_timestamp text, p_storage_path text, p_attempt_id uuid, p_object_name text,
  p_lease_seconds int, p_quota_bytes bigint
)
returns jsonb
language plpgsql
security definer
set search_path = ''
set lock_timeout = '5s'
as $$
declare
  v_principal app.principal := app.admit(p_credential_kind, p_credential_hash);
  v_agent app.agents;
  v_snapshot app.snapshots;
begin
  select * into v_agent from app.agents
   where owner_id = v_principal.owner_id and agent_id = p_agent_id for no key update;
  if not found then
    -- A sequence that cannot be an agent's first is refused before the agent is made: a typo leaves no trace.
    if p_sequence_number <> 0 then
      perform app.refuse('sequence_gap', jsonb_build_object('expected_sequence', 0, 'head', null));
    end if;
    insert into app.agents (owner_id, agent_id) values (v_principal.owner_id, p_agent_id)
      on conflict do nothing;
    select * into v_agent from app.agents
     where owner_id = v_principal.owner_id and agent_id = p_agent_id for no key update;
  end if;
  perform app.settle_agent(v_agent.id);

  if p_sequence_number <= v_agent.head_sequence then
    select * into v_snapshot from app.snapshots
     where agent_ref = v_agent.id and sequence_number = p_sequence_number and status = 'confirmed';
    if v_snapshot.client_payload_hash <> p_client_payload_hash then
      perform app.refuse('sequence_conflict', jsonb_build_object(
        'sequence_number', p_sequence_number, 'head', v_agent.head_sequence,
        'existing_payload_hash', encode(v_snapshot.client_payload_hash, 'hex')));
    elsif p_sequence_number = v_agent.head_sequence then
      return jsonb_build_object('receipt', app.snapshot_receipt(v_snapshot, p_agent_id));
    end if;
  end if;
  if p_sequence_number <> v_agent.head_sequence + 1 then
    perform app.refuse('sequence_gap', jsonb_build_object(
      'expected_sequence', v_agent.head_sequence + 1, 'head', nullif(v_agent.head_sequence, -1)));
  end if;

  select * into v_snapshot from app.snapshots
   where agent_ref = v_agent.id and sequence_number = p_sequence_number and status = 'pending'
     and client_payload_hash = p_client_payload_hash and byte_size = p_byte_size;
  if not found then
    v_snapshot.id := gen_random_uuid();
    v_snapshot.cost_milli := app.take_bytes(
      v_principal, p_byte_size, p_quota_bytes, 'snapshot', v_snapshot.id);
    insert into app.snapshots (
      id, agent_ref, account_id, sequence_number, storage_path, parent_path, policy_hash,
      client_payload_hash, byte_size, cost_milli, client_timestamp
    ) values (
      v_snapshot.id, v_agent.id, v_principal.account_id, p_sequence_number, p_storage_path, p_parent_path,
      p_policy_hash, p_client_payload_hash, p_byte_size, v_snapshot.cost_milli, p_client_timestamp
    );
  end if;
  insert into app.snapshot_attempts (id, snapshot_id, object_name, lease_expires_at)
  values (p_attempt_id, v_snapshot.id, p_object_name, now() + make_interval(secs => p_lease_seconds))
  on conflict (id) do nothing;
  return jsonb_build_object('object_name', p_object_name);
end
$$;
revoke execute on function api.begin_snapshot(
  text, bytea, text, bigint, text, bytea, bytea, int, text, text, uuid, text, int, bigint
) from public, anon, authenticated;
grant execute on function api.begin_snapshot(
  text, bytea, text, bigint, text, bytea, bytea, int, text, text, uuid, text, int, bigint
) to service_role;

-- app.lock_attempt: an attempt and its snapshot, under their agent's lock ------------------------------------
-- Fields are null when there is no such attempt.
create function app.lock_attempt(
  p_attempt_id uuid, out agent app.agents, out snapshot app.snapshots, out attempt app.snapshot_attempts
)
language plpgsql
set search_path = ''
as $$
begin
  select a.* into agent
    from app.snapshot_attempts t
    join app.snapshots s on s.id = t.snapshot_id
    join app.agents a on a.id = s.agent_ref
   where t.id = p_attempt_id
     for no key update of a;
  -- Read only now, when nobody else can change them.
  select * into attempt from app.snapshot_attempts where id = p_attempt_id;
  select * into snapshot from app.snapshots where id = attempt.snapshot_id;
end
$$;
revoke execute on function app.lock_attempt(uuid) from public, anon, authenticated;

-- api.confirm_snapshot: the blob is stored; the first to say so wins -----------------------------------------
-- Returns {"receipt": …, "object_name": …, "told": whether webhooks wait}, the object being the winner's: every
-- attempt with the winning hash gets the same receipt. Refuses `sequence_conflict` when another hash has won
-- meanwhile, and `storage_unavailable` when the lease had lapsed and the money is already back.
create function api.confirm_snapshot(p_attempt_id uuid)
returns jsonb
language plpgsql
security definer
set search_path = ''
set lock_timeout = '5s'
as $$
declare
  v_locked record;
  v_agent app.agents;
  v_snapshot app.snapshots;
  v_attempt app.snapshot_attempts;
  v_winner app.snapshots;
  v_rival app.snapshots;
  v_told boolean := false;
begin
  select * into v_locked from app.lock_attempt(p_attempt_id);
  v_agent := v_locked.agent;
  v_snapshot := v_locked.snapshot;
  v_attempt := v_locked.attempt;
  -- A failed attempt stays failed: the sweep may have removed its object already.
  if v_attempt.status = 'pending' and v_snapshot.status = 'pending' then
    update app.snapshot_attempts set status = 'confirmed' where id = p_attempt_id;
    update app.snapshots set status = 'confirmed', confirmed_at = now(), object_name = v_attempt.object_name
     where id = v_snapshot.id
    returning * into v_winner;
    update app.agents set head_sequence = v_winner.sequence_number where id = v_agent.id;
    for v_rival in
      select * from app.snapshots
       where agent_ref = v_agent.id and sequence_number = v_winner.sequence_number and status = 'pending'
    loop
      perform app.fail_snapshot(v_rival);
    end loop;
    perform app.count_usage(v_agent.owner_id, v_winner.account_id, 0, 1, 0, v_winner.byte_size);
    v_told := app.emit_event(v_winner.account_id, 'snapshot.confirmed', jsonb_build_object(
      'snapshot_id', v_winner.id, 'sequence_number', v_winner.sequence_number, 'byte_size', v_winner.byte_size));
  else
    select * into v_winner from app.snapshots
     where agent_ref = v_agent.id and sequence_number = v_snapshot.sequence_number and status = 'confirmed';
    if not found then
      perform app.refuse('storage_unavailable', jsonb_build_object('reason', 'lease_expired'));
    elsif v_winner.client_payload_hash <> v_snapshot.client_payload_hash then
      perform app.refuse('sequence_conflict', jsonb_build_object(
        'sequence_number', v_snapshot.sequence_number, 'head', v_agent.head_sequence,
        'existing_payload_hash', encode(v_winner.client_payload_hash, 'hex')));
    end if;
    update app.snapshot_attempts set status = 'failed'
     where id = p_attempt_id and object_name <> v_winner.object_name;
  end if;
  return jsonb_build_object(
    'receipt', app.snapshot_receipt(v_winner, v_agent.agent_id), 'object_name', v_winner.object_name,
    'told', v_told);
end
$$;
revoke execute on function api.confirm_snapshot(uuid) from public, anon, authenticated;
grant execute on function api.confirm_snapshot(uuid) to service_role;

-- api.fail_attempt: the blob is not stored, or is not wanted -------------------------------------------------
-- The snapshot fails, and its debit is refunded, unless another attempt still works for it.
create function api.fail_attempt(p_attempt_id uuid)
returns jsonb
language plpgsql
security definer
set search_path = ''
set lock_timeout = '5s'
as $$
declare
  v_locked record;
begin
  select * into v_locked from app.lock_attempt(p_attempt_id);
  update app.snapshot_attempts set status = 'failed' where id = p_attempt_id and status = 'pending';
  if (v_locked.snapshot).status = 'pending' then
    perform app.settle_agent((v_locked.agent).id);
  end if;
  return jsonb_build_object('ok', true);
end
$$;
revoke execute on function api.fail_attempt(uuid) from public, anon, authenticated;
grant execute on function api.fail_attempt(uuid) to service_role;
