-- Checking a long ledger: the same encoding and the same hashes, computed in a fraction of the time.
--
-- A function in SQL whose search path is pinned is planned anew at each call, three for each entry here. These keep
-- their plans. What an entry's hash covers is said in docs/audit.md and has not changed.

-- app.encode_fields: each text with its length in bytes before it, as eight bytes, big-endian ----------------
create or replace function app.encode_fields(p_values text[])
returns bytea
language plpgsql
immutable
parallel safe
set search_path = ''
as $$
declare
  v_value text;
  v_encoded bytea := '';
begin
  if p_values is not null then
    foreach v_value in array p_values loop
      continue when v_value is null;
      v_encoded := v_encoded || int8send(octet_length(convert_to(v_value, 'UTF8'))::bigint)
        || convert_to(v_value, 'UTF8');
    end loop;
  end if;
  return v_encoded;
end
$$;
revoke execute on function app.encode_fields(text[]) from public, anon, authenticated;

-- app.spell_metadata: keys in byte order, each followed by its value with a letter for its type ---------------
create or replace function app.spell_metadata(p_metadata jsonb)
returns text[]
language plpgsql
immutable
parallel safe
set search_path = ''
as $$
begin
  if p_metadata = '{}' then
    return null;
  end if;
  return (
    select array_agg(array[
             e.key,
             case jsonb_typeof(e.value)
               when 'string' then 's' || (e.value #>> '{}')
               when 'number' then 'n' || (e.value #>> '{}')
               when 'boolean' then 'b' || (e.value #>> '{}')
               when 'null' then 'z'
               -- Never stored; were it, no entry's hash would be right with it.
               else 'x' || e.value::text
             end
           ] order by e.key collate "C")
      from jsonb_each(p_metadata) e
  );
end
$$;
revoke execute on function app.spell_metadata(jsonb) from public, anon, authenticated;

-- app.hash_audit_entry: what an entry's hash must be ----------------------------------------------------------
create or replace function app.hash_audit_entry(p_entry app.audit_entries)
returns bytea
language plpgsql
stable
set search_path = ''
as $$
begin
  return sha256(
    app.encode_fields(array[
      'v2-agent-state/audit/1', p_entry.team_id::text, p_entry.seq::text, p_entry.id::text, p_entry.actor,
      p_entry.action, p_entry.resource_type, p_entry.resource_id, app.iso(p_entry.created_at)
    ])
    -- Going through pairs is one pair after the other.
    || app.encode_fields(app.spell_metadata(p_entry.metadata))
    || p_entry.prev_hash
  );
end
$$;
revoke execute on function app.hash_audit_entry(app.audit_entries) from public, anon, authenticated;
