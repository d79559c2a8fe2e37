-- Reading snapshots back, and sweeping up after uploads that never finished. Spec 2.1, 2.2 and 4.1.
--
-- Reads take no lock and write nothing. Another owner's agent is exactly like one that does not exist.

-- api.read_snapshot: the latest confirmed snapshot, or the one at a sequence ---------------------------------
-- Returns {"receipt": …, "object_name": …}.
create function api.read_snapshot(
  p_credential_kind text, p_credential_hash bytea, p_agent_id text, p_sequence_number bigint default null
)
returns jsonb
language plpgsql
stable
security definer
set search_path = ''
as $$
declare
  v_principal app.principal := app.identify(p_credential_kind, p_credential_hash);
  v_snapshot app.snapshots;
begin
  select s.* into v_snapshot
    from app.agents a
    join app.snapshots s on s.agent_ref = a.id and s.status = 'confirmed'
     and s.sequence_number = coalesce(p_sequence_number, a.head_sequence)
   where a.owner_id = v_principal.owner_id and a.agent_id = p_agent_id;
  if not found then
    perform app.refuse(
      case when p_sequence_number is null then 'no_snapshots_for_agent' else 'snapshot_not_found' end);
  end if;
  return jsonb_build_object(
    'receipt', app.snapshot_receipt(v_snapshot, p_agent_id), 'object_name', v_snapshot.object_name);
end
$$;
revoke execute on function api.read_snapshot(text, bytea, text, bigint) from public, anon, authenticated;
grant execute on function api.read_snapshot(text, bytea, text, bigint) to service_role;

-- api.list_lineage: the newest confirmed snapshots of an agent, newest first ---------------------------------
create function api.list_lineage(
  p_credential_kind text, p_credential_hash bytea, p_agent_id text, p_limit int
)
returns jsonb
language plpgsql
stable
security definer
set search_path = ''
as $$
declare
  v_principal app.principal := app.identify(p_credential_kind, p_credential_hash);
begin
  return coalesce((
    select jsonb_agg(jsonb_build_object(
             'sequence_number', s.sequence_number,
             'storage_path', s.storage_path,
             'parent_path', s.parent_path,
             'client_payload_hash', encode(s.client_payload_hash, 'hex'),
             'confirmed_at', app.iso(s.confirmed_at)
           ) order by s.sequence_number desc)
      from (
        select s.*
          from app.agents a
          join app.snapshots s on s.agent_ref = a.id and s.status = 'confirmed'
         where a.owner_id = v_principal.owner_id and a.agent_id = p_agent_id
         order by s.sequence_number desc
         limit p_limit
      ) s
  ), '[]');
end
$$;
revoke execute on function api.list_lineage(text, bytea, text, int) from public, anon, authenticated;
grant execute on function api.list_lineage(text, bytea, text, int) to service_role;

-- api.settle_snapshots: the sweep's first half ---------------------------------------------------------------
-- Settles agents whose uploads have lapsed, at most `p_limit` of them, passing over any that is busy. Returns
-- {"failed": snapshots given up, "orphans": [{"attempt_id", "object_name"}]}: objects that nobody refers to and
-- that no upload can still be writing.
create function api.settle_snapshots(p_limit int)
returns jsonb
language plpgsql
security definer
set search_path = ''
as $$
declare
  v_agent_ref bigint;
  v_failed int := 0;
begin
  for v_agent_ref in
    select a.id from app.agents a
     where a.id in (
       select s.agent_ref from app.snapshot_attempts t join app.snapshots s on s.id = t.snapshot_id
        where t.status = 'pending' and t.lease_expires_at <= now()
     )
     order by a.id
     limit p_limit
       for no key update skip locked
  loop
    v_failed := v_failed + app.settle_agent(v_agent_ref);
    -- Uploads that lost to another one and died before they could say so.
    update app.snapshot_attempts t set status = 'failed'
      from app.snapshots s
     where s.id = t.snapshot_id and s.agent_ref = v_agent_ref and s.status <> 'pending'
       and t.status = 'pending' and t.lease_expires_at <= now();
  end loop;
  return jsonb_build_object(
    'failed', v_failed,
    'orphans', coalesce((
      select jsonb_agg(jsonb_build_object('attempt_id', t.id, 'object_name', t.object_name))
        from (
          select id, object_name from app.snapshot_attempts
           where status = 'failed' and lease_expires_at <= now()
           order by lease_expires_at
           limit p_limit
        ) t
    ), '[]')
  );
end
$$;
revoke execute on function api.settle_snapshots(int) from public, anon, authenticated;
grant execute on function api.settle_snapshots(int) to service_role;

-- api.forget_attempts: the sweep's second half, once the objects are gone ------------------------------------
create function api.forget_attempts(p_attempt_ids uuid[])
returns jsonb
language sql
security definer
set search_path = ''
as $$
  with gone as (
    delete from app.snapshot_attempts
     where id = any (p_attempt_ids) and status = 'failed' and lease_expires_at <= now()
    returning 1
  )
  select jsonb_build_object('forgotten', count(*)) from gone
$$;
revoke execute on function api.forget_attempts(uuid[]) from public, anon, authenticated;
grant execute on function api.forget_attempts(uuid[]) to service_role;

-- The bucket -------------------------------------------------------------------------------------------------
-- Public, because a restore hands out a plain address; safe, because every object's name begins with a random
-- UUID that only the owner is told. No policy: nobody can list it. Where there is no Supabase Storage the blobs
-- are files, and there is nothing to make.
do $$
begin
  if to_regclass('storage.buckets') is not null then
    insert into storage.buckets (id, name, public, file_size_limit, allowed_mime_types)
    values ('agent-state', 'agent-state', true, 524288, array['application/octet-stream'])
    on conflict (id) do update
      set public = excluded.public, file_size_limit = excluded.file_size_limit,
          allowed_mime_types = excluded.allowed_mime_types;
  end if;
end
$$;
