-- Heads of several logs in one call. Agents ask for them often, and the call costs more than the answer.

-- api.read_heads: where the logs of several callers stand -----------------------------------------------------
-- The arrays run in parallel. Returns an array with a place for each: the head as `api.read_head` shows it, or null
-- for whoever has to ask that function, which says why.
create function api.read_heads(p_credential_kinds text[], p_credential_hashes bytea[])
returns jsonb
language plpgsql
stable
security definer
set search_path = ''
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
begin
  return (
    select jsonb_agg(
             case when l.id is not null then jsonb_build_object(
               'sequence_number', l.head_sequence,
               'merkle_root', encode(l.merkle_root, 'hex'),
               'updated_at', app.iso(l.updated_at))
             end order by r.place)
      from unnest(p_credential_kinds, p_credential_hashes) with ordinality as r (kind, hash, place)
     cross join app.find_principal(r.kind, r.hash) f
      left join app.logs l
        on f.refusal is null and l.owner_id = (f.principal).owner_id and l.member_id = (f.principal).member_id
  );
end
$$;
revoke execute on function api.read_heads(text[], bytea[]) from public, anon, authenticated;
grant execute on function api.read_heads(text[], bytea[]) to service_role;
