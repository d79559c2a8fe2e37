-- Functions that run at every request read by index, whatever the tables' sizes were when their plans were made.
--
-- A connection keeps a function's plans until statistics change. A table that was read whole while it had a page of
-- rows would be read whole for up to a minute more while it grows. These functions only ever look at rows of one
-- owner, so there is no size at which reading a whole table is right.

alter function api.append_log(
  text, bytea, bytea, bigint[], bytea[], bytea[], bytea[], text[], bytea, bigint, double precision
) set enable_seqscan = off;
alter function api.read_head(text, bytea) set enable_seqscan = off;
alter function api.read_log(text, bytea, bigint, bigint, int, bigint) set enable_seqscan = off;
-- A page of a log is the beginning of what follows, in the index's own order. Where most logs are short a bitmap
-- looks as good, but has to gather and sort the whole rest of a long one first.
alter function api.read_log(text, bytea, bigint, bigint, int, bigint) set enable_bitmapscan = off;
alter function api.read_metadata(text, bytea) set enable_seqscan = off;
alter function api.begin_snapshot(
  text, bytea, text, bigint, text, bytea, bytea, int, text, text, uuid, text, int, bigint
) set enable_seqscan = off;
alter function api.confirm_snapshot(uuid) set enable_seqscan = off;
alter function api.read_snapshot(text, bytea, text, bigint) set enable_seqscan = off;

-- api.list_lineage: as before, but the agent is found first --------------------------------------------------
-- Joined to it, the newest few were found by sorting all.
create or replace function api.list_lineage(
  p_credential_kind text, p_credential_hash bytea, p_agent_id text, p_limit int
)
returns jsonb
language plpgsql
stable
security definer
set search_path = ''
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
  v_principal app.principal := app.identify(p_credential_kind, p_credential_hash);
  v_agent_ref bigint := (
    select id from app.agents where owner_id = v_principal.owner_id and agent_id = p_agent_id);
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
        select * from app.snapshots
         where agent_ref = v_agent_ref and status = 'confirmed'
         order by sequence_number desc
         limit p_limit
      ) s
  ), '[]');
end
$$;
revoke execute on function api.list_lineage(text, bytea, text, int) from public, anon, authenticated;
grant execute on function api.list_lineage(text, bytea, text, int) to service_role;
