-- The audit ledger: for each team a chain of entries that anyone can check without trusting us.
--
-- An entry's hash covers every field in a documented, length-prefixed encoding (docs/audit.md) and the hash before
-- it. The team's row holds the chain's head, so that cutting entries off the end shows too. Entries are appended
-- under the team's lock, in the transaction of the change that they record: there is no change without its entry.
-- Spec 2.8, 4.5 and 6.

-- app.is_audit_metadata: flat, and nothing that two languages could spell differently --------------------------
-- Text, whole numbers of up to 15 digits (every JSON reader holds those exactly), booleans and nulls: all that the
-- encoding knows.
create function app.is_audit_metadata(p_metadata jsonb)
returns boolean
language sql
immutable
parallel safe
set search_path = ''
as $$
  select jsonb_typeof(p_metadata) = 'object' and not exists (
    select from jsonb_each(case jsonb_typeof(p_metadata) when 'object' then p_metadata else '{}' end) e
     where case jsonb_typeof(e.value)
             when 'number' then e.value::text !~ '^(0|-?[1-9][0-9]{0,14})$'
             else jsonb_typeof(e.value) in ('object', 'array')
           end
  )
$$;
revoke execute on function app.is_audit_metadata(jsonb) from public, anon, authenticated;

create table app.audit_entries (
  team_id uuid not null references app.teams (id) on delete cascade,
  seq bigint not null check (seq >= 0),
  id uuid not null unique default gen_random_uuid(),
  actor text not null,
  action text not null,
  resource_type text not null,
  resource_id text not null,
  metadata jsonb not null check (app.is_audit_metadata(metadata)),
  prev_hash bytea not null check (octet_length(prev_hash) = 32),
  entry_hash bytea not null check (octet_length(entry_hash) = 32),
  -- In whole milliseconds, as it is shown and hashed.
  created_at timestamptz not null check (created_at = date_trunc('milliseconds', created_at)),
  primary key (team_id, seq),
  unique (team_id, prev_hash)
);
alter table app.audit_entries enable row level security;

create trigger audit_entries_only_grow before update or delete on app.audit_entries
  for each row execute function app.forbid_change();
create trigger audit_entries_are_not_truncated before truncate on app.audit_entries
  for each statement execute function app.forbid_change();

-- app.encode_fields: each text with its length in bytes before it, as eight bytes, big-endian -------------------
create function app.encode_fields(p_values text[])
returns bytea
language sql
immutable
parallel safe
set search_path = ''
as $$
  select coalesce(
           string_agg(int8send(octet_length(f.bytes)::bigint) || f.bytes, ''::bytea order by f.place), ''::bytea)
    from (select convert_to(v, 'UTF8') as bytes, place from unnest(p_values) with ordinality as u (v, place)) f
$$;
revoke execute on function app.encode_fields(text[]) from public, anon, authenticated;

-- app.spell_metadata: keys in byte order, each followed by its value with a letter for its type ---------------
create function app.spell_metadata(p_metadata jsonb)
returns text[]
language sql
immutable
parallel safe
set search_path = ''
as $$
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
$$;
revoke execute on function app.spell_metadata(jsonb) from public, anon, authenticated;

-- app.hash_audit_entry: what an entry's hash must be ----------------------------------------------------------
create function app.hash_audit_entry(p_entry app.audit_entries)
returns bytea
language sql
stable
set search_path = ''
as $$
  -- `unnest` of pairs is one pair after the other.
  select sha256(
    app.encode_fields(array[
      'v2-agent-state/audit/1', p_entry.team_id::text, p_entry.seq::text, p_entry.id::text, p_entry.actor,
      p_entry.action, p_entry.resource_type, p_entry.resource_id, app.iso(p_entry.created_at)
    ])
    || app.encode_fields(app.spell_metadata(p_entry.metadata))
    || p_entry.prev_hash
  )
$$;
revoke execute on function app.hash_audit_entry(app.audit_entries) from public, anon, authenticated;

-- app.append_audit: record a change of a team -----------------------------------------------------------------
-- The caller holds the team's lock.
create function app.append_audit(
  p_team_id uuid, p_actor text, p_action text, p_resource_type text, p_resource_id text, p_metadata jsonb
)
returns void
language plpgsql
set search_path = ''
as $$
declare
  v_entry app.audit_entries;
begin
  select t.id, t.audit_seq + 1, t.audit_hash into v_entry.team_id, v_entry.seq, v_entry.prev_hash
    from app.teams t where t.id = p_team_id;
  v_entry.id := gen_random_uuid();
  v_entry.actor := p_actor;
  v_entry.action := p_action;
  v_entry.resource_type := p_resource_type;
  v_entry.resource_id := p_resource_id;
  v_entry.metadata := p_metadata;
  -- Never before the entry before it, whatever the clock did: a period is then one stretch of the chain.
  v_entry.created_at := greatest(
    date_trunc('milliseconds', clock_timestamp()),
    (select e.created_at from app.audit_entries e where e.team_id = p_team_id and e.seq = v_entry.seq - 1));
  v_entry.entry_hash := app.hash_audit_entry(v_entry);
  insert into app.audit_entries select v_entry.*;
  update app.teams set audit_seq = v_entry.seq, audit_hash = v_entry.entry_hash where id = p_team_id;
end
$$;
revoke execute on function app.append_audit(uuid, text, text, text, text, jsonb) from public, anon, authenticated;

-- app.show_audit_entry: an entry as the API shows it (spec 2.8) ----------------------------------------------
create function app.show_audit_entry(p_entry app.audit_entries)
returns jsonb
language sql
stable
set search_path = ''
as $$
  select jsonb_build_object(
    'id', p_entry.id,
    'seq', p_entry.seq,
    'actor', p_entry.actor,
    'action', p_entry.action,
    'resource_type', p_entry.resource_type,
    'resource_id', p_entry.resource_id,
    'metadata', p_entry.metadata,
    'prev_hash', encode(p_entry.prev_hash, 'hex'),
    'entry_hash', encode(p_entry.entry_hash, 'hex'),
    'created_at', app.iso(p_entry.created_at)
  )
$$;
revoke execute on function app.show_audit_entry(app.audit_entries) from public, anon, authenticated;

-- api.list_audit: the newest entries, newest first ------------------------------------------------------------
-- Null filters let everything through; both times are inclusive.
create function api.list_audit(
  p_subject text, p_email text, p_team_id uuid, p_actor text, p_action text, p_from timestamptz,
  p_to timestamptz, p_limit int
)
returns jsonb
language plpgsql
security definer
set search_path = ''
as $$
begin
  perform app.enter_team(p_team_id, p_subject, p_email, 'read', false);
  return jsonb_build_object('team_id', p_team_id, 'entries', coalesce((
    select jsonb_agg(app.show_audit_entry(e) order by e.seq desc)
      from (
        select * from app.audit_entries
         where team_id = p_team_id
           and (p_actor is null or actor = p_actor)
           and (p_action is null or action = p_action)
           and (p_from is null or created_at >= p_from)
           and (p_to is null or created_at <= p_to)
         order by seq desc
         limit p_limit
      ) e
  ), '[]'));
end
$$;
revoke execute on function api.list_audit(text, text, uuid, text, text, timestamptz, timestamptz, int)
  from public, anon, authenticated;
grant execute on function api.list_audit(text, text, uuid, text, text, timestamptz, timestamptz, int)
  to service_role;

-- api.verify_audit: check a stretch of the chain --------------------------------------------------------------
-- Checks up to `p_limit` entries after `p_after_seq`, whose hash was `p_prev_hash`. Returns {"checked", "last_seq",
-- "last_hash", "broken_seq" (null: none), "head_seq", "head_hash"}; a stretch shorter than `p_limit` is the last.
create function api.verify_audit(
  p_subject text, p_email text, p_team_id uuid, p_after_seq bigint, p_prev_hash bytea, p_limit int
)
returns jsonb
language plpgsql
security definer
set search_path = ''
as $$
declare
  v_result jsonb;
begin
  perform app.enter_team(p_team_id, p_subject, p_email, 'read', false);
  -- One statement, so that the entries and the head are of one moment, whatever is appended meanwhile.
  select jsonb_build_object(
           'checked', count(c.seq),
           'last_seq', coalesce(max(c.seq), p_after_seq),
           'last_hash', encode(coalesce((array_agg(c.entry_hash order by c.seq desc))[1], p_prev_hash), 'hex'),
           -- The first place at which something is not what it must be, or is missing.
           'broken_seq', min(c.place) filter (where c.broken),
           'head_seq', t.audit_seq,
           'head_hash', encode(t.audit_hash, 'hex'))
    into v_result
    from app.teams t
    left join (
      select e.seq, e.entry_hash, p_after_seq + row_number() over w as place,
             e.seq <> p_after_seq + row_number() over w
               or e.prev_hash <> coalesce(lag(e.entry_hash) over w, p_prev_hash)
               or e.entry_hash <> app.hash_audit_entry(e) as broken
        from (
          select * from app.audit_entries
           where team_id = p_team_id and seq > p_after_seq order by seq limit p_limit
        ) e
      window w as (order by e.seq)
    ) c on true
   where t.id = p_team_id
   group by t.audit_seq, t.audit_hash;
  return v_result;
end
$$;
revoke execute on function api.verify_audit(text, text, uuid, bigint, bytea, int) from public, anon, authenticated;
grant execute on function api.verify_audit(text, text, uuid, bigint, bytea, int) to service_role;

-- api.export_audit: a stretch of the ledger, oldest first, for an admin ---------------------------------------
-- Returns {"entries", "head_seq", "head_hash"}: up to `p_limit` entries after `p_after_seq` in the given time.
create function api.export_audit(
  p_subject text, p_email text, p_team_id uuid, p_after_seq bigint, p_from timestamptz, p_to timestamptz,
  p_limit int
)
returns jsonb
language plpgsql
security definer
set search_path = ''
as $$
declare
  v_actor app.team_actor := app.enter_team(p_team_id, p_subject, p_email, 'admin', false);
begin
  return jsonb_build_object(
    'head_seq', (v_actor.team).audit_seq,
    'head_hash', encode((v_actor.team).audit_hash, 'hex'),
    'entries', coalesce((
      select jsonb_agg(app.show_audit_entry(e) order by e.seq)
        from (
          select * from app.audit_entries
           where team_id = p_team_id and seq > p_after_seq
             and (p_from is null or created_at >= p_from) and (p_to is null or created_at <= p_to)
           order by seq
           limit p_limit
        ) e
    ), '[]'));
end
$$;
revoke execute on function api.export_audit(text, text, uuid, bigint, timestamptz, timestamptz, int)
  from public, anon, authenticated;
grant execute on function api.export_audit(text, text, uuid, bigint, timestamptz, timestamptz, int)
  to service_role;
