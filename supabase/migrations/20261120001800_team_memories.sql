-- A team's shared memory, and the log of what was synced. Spec 2.8, 4.5 and 8.
--
-- Entries are numbered from 0 without gaps, under the team's lock, and stamped with the epoch that runs at that
-- moment: no entry carries an epoch whose key its author could not have had.

create table app.team_memories (
  team_id uuid not null references app.teams (id) on delete cascade,
  seq bigint not null check (seq >= 0),
  id uuid not null unique,
  rotation_seq int not null,
  -- Null when the author's account was removed: the memory is the team's.
  author_id uuid references app.accounts (id) on delete set null,
  ciphertext bytea not null check (octet_length(ciphertext) between 1 and 262144),
  created_at timestamptz not null default now(),
  primary key (team_id, seq)
);
alter table app.team_memories alter column ciphertext set storage external;
create index team_memories_by_author on app.team_memories (author_id);

create table app.team_sync_log (
  id bigint generated always as identity primary key,
  team_id uuid not null references app.teams (id) on delete cascade,
  agent_key text not null,
  op text not null check (op in ('write', 'read')),
  bytes bigint not null,
  latency_ms int not null,
  synced_at timestamptz not null default now()
);
create index team_sync_log_newest on app.team_sync_log (team_id, id desc);

alter table app.team_memories enable row level security;
alter table app.team_sync_log enable row level security;

-- api.write_memory: append an entry ---------------------------------------------------------------------------
-- `p_memory_id` is the caller's to choose: the same one again returns the same entry. `p_rotation_seq` is the epoch
-- whose key the entry was encrypted with, when the caller says so: an older one is refused.
create function api.write_memory(
  p_subject text, p_email text, p_team_id uuid, p_memory_id uuid, p_ciphertext bytea, p_agent_key text,
  p_rotation_seq int, p_elapsed_ms double precision
)
returns jsonb
language plpgsql
security definer
set search_path = ''
set lock_timeout = '5s'
as $$
declare
  v_actor app.team_actor := app.enter_team(p_team_id, p_subject, p_email, 'write', true);
  v_team app.teams := v_actor.team;
  v_memory app.team_memories;
  v_told boolean := false;
begin
  select * into v_memory from app.team_memories where id = p_memory_id and team_id = p_team_id;
  if not found then
    if not exists (
      select from app.team_grants where team_id = p_team_id and account_id = v_actor.account_id
    ) then
      perform app.refuse('no_grant');
    elsif p_rotation_seq <> v_team.rotation_seq then
      perform app.refuse('stale_rotation', jsonb_build_object('rotation_seq', v_team.rotation_seq));
    end if;
    insert into app.team_memories (team_id, seq, id, rotation_seq, author_id, ciphertext)
    values (p_team_id, v_team.memory_seq + 1, p_memory_id, v_team.rotation_seq, v_actor.account_id, p_ciphertext)
    returning * into v_memory;
    update app.teams set memory_seq = v_memory.seq where id = p_team_id;
    insert into app.team_sync_log (team_id, agent_key, op, bytes, latency_ms)
    values (p_team_id, coalesce(p_agent_key, p_subject), 'write', octet_length(p_ciphertext),
      round(p_elapsed_ms + extract(epoch from clock_timestamp() - statement_timestamp()) * 1000));
    v_told := app.emit_event(v_team.account_id, 'memory.written', jsonb_build_object(
      'team_id', p_team_id, 'memory_id', v_memory.id, 'seq', v_memory.seq, 'byte_size', octet_length(p_ciphertext)));
  end if;
  return jsonb_build_object(
    'id', v_memory.id, 'seq', v_memory.seq, 'rotation_seq', v_memory.rotation_seq,
    'created_at', app.iso(v_memory.created_at), 'told', v_told);
end
$$;
revoke execute on function api.write_memory(
  text, text, uuid, uuid, bytea, text, int, double precision
) from public, anon, authenticated;
grant execute on function api.write_memory(
  text, text, uuid, uuid, bytea, text, int, double precision
) to service_role;

-- api.read_memories: a run of entries -------------------------------------------------------------------------
-- Like `api.read_log`: at most `p_limit` after `p_since`, as many as fit into `p_bytes_max`, but always one. Each row
-- carries the memory's head.
create function api.read_memories(
  p_subject text, p_email text, p_team_id uuid, p_since bigint, p_limit int, p_bytes_max bigint
)
returns table (
  id uuid, seq bigint, rotation_seq int, ciphertext bytea, author_id text, created_at text, head_seq bigint
)
language plpgsql
security definer
set search_path = ''
as $$
declare
  v_actor app.team_actor := app.enter_team(p_team_id, p_subject, p_email, 'read', false);
begin
  return query
    select e.id, e.seq, e.rotation_seq, e.ciphertext, a.subject, app.iso(e.created_at),
           (v_actor.team).memory_seq
      from (
        select n.*, sum(octet_length(n.ciphertext)) over (order by n.seq) as bytes_so_far
          from app.team_memories n
         where n.team_id = p_team_id and n.seq > p_since and n.seq <= (v_actor.team).memory_seq
         order by n.seq
         limit p_limit
      ) e
      left join app.accounts a on a.id = e.author_id
     where e.bytes_so_far <= p_bytes_max or e.bytes_so_far = octet_length(e.ciphertext)
     order by e.seq;
end
$$;
revoke execute on function api.read_memories(text, text, uuid, bigint, int, bigint)
  from public, anon, authenticated;
grant execute on function api.read_memories(text, text, uuid, bigint, int, bigint) to service_role;

-- api.list_sync_log: the newest 200 ---------------------------------------------------------------------------
create function api.list_sync_log(p_subject text, p_email text, p_team_id uuid)
returns jsonb
language plpgsql
security definer
set search_path = ''
as $$
begin
  perform app.enter_team(p_team_id, p_subject, p_email, 'read', false);
  return jsonb_build_object('team_id', p_team_id, 'entries', coalesce((
    select jsonb_agg(jsonb_build_object(
             'agent_key', l.agent_key, 'op', l.op, 'bytes', l.bytes, 'latency_ms', l.latency_ms,
             'synced_at', app.iso(l.synced_at)) order by l.id desc)
      from (select * from app.team_sync_log where team_id = p_team_id order by id desc limit 200) l
  ), '[]'));
end
$$;
revoke execute on function api.list_sync_log(text, text, uuid) from public, anon, authenticated;
grant execute on function api.list_sync_log(text, text, uuid) to service_role;
