-- A vault's ledger, for its owner: list, verify, export. The same shapes as a team's (docs/audit.md).

-- api.list_vault_audit: the newest entries, newest first -----------------------------------------------------------
create function api.list_vault_audit(
  p_key_hash bytea, p_subject text, p_email text, p_vault_id uuid, p_limit int, p_now timestamptz
)
returns jsonb
language plpgsql
security definer
set search_path = ''
set lock_timeout = '5s'
as $$
begin
  perform app.enter_vault(p_vault_id, p_key_hash, p_subject, p_email, p_now);
  return jsonb_build_object('vault_id', p_vault_id, 'entries', coalesce((
    select jsonb_agg(app.show_audit_entry(app.as_audit_entry(e)) order by e.seq desc)
      from (
        select * from app.vault_audit_entries where vault_id = p_vault_id order by seq desc limit p_limit
      ) e), '[]'));
end
$$;
revoke execute on function api.list_vault_audit(bytea, text, text, uuid, int, timestamptz)
  from public, anon, authenticated;
grant execute on function api.list_vault_audit(bytea, text, text, uuid, int, timestamptz) to service_role;

-- api.verify_vault_audit: check a stretch of the chain --------------------------------------------------------------
-- As api.verify_audit does for a team.
create function api.verify_vault_audit(
  p_key_hash bytea, p_subject text, p_email text, p_vault_id uuid, p_now timestamptz, p_after_seq bigint,
  p_prev_hash bytea, p_limit int
)
returns jsonb
language plpgsql
security definer
set search_path = ''
set lock_timeout = '5s'
as $$
declare
  v_result jsonb;
begin
  perform app.enter_vault(p_vault_id, p_key_hash, p_subject, p_email, p_now);
  select jsonb_build_object(
           'checked', count(c.seq),
           'last_seq', coalesce(max(c.seq), p_after_seq),
           'last_hash', encode(coalesce((array_agg(c.entry_hash order by c.seq desc))[1], p_prev_hash), 'hex'),
           'broken_seq', min(c.place) filter (where c.broken),
           'head_seq', v.audit_seq,
           'head_hash', encode(v.audit_hash, 'hex'))
    into v_result
    from app.vaults v
    left join (
      select e.seq, e.entry_hash, p_after_seq + row_number() over w as place,
             e.seq <> p_after_seq + row_number() over w
               or e.prev_hash <> coalesce(lag(e.entry_hash) over w, p_prev_hash)
               or e.entry_hash <> app.hash_audit_entry(app.as_audit_entry(e)) as broken
        from (
          select * from app.vault_audit_entries
           where vault_id = p_vault_id and seq > p_after_seq order by seq limit p_limit
        ) e
      window w as (order by e.seq)
    ) c on true
   where v.id = p_vault_id
   group by v.audit_seq, v.audit_hash;
  return v_result;
end
$$;
revoke execute on function api.verify_vault_audit(bytea, text, text, uuid, timestamptz, bigint, bytea, int)
  from public, anon, authenticated;
grant execute on function api.verify_vault_audit(bytea, text, text, uuid, timestamptz, bigint, bytea, int)
  to service_role;

-- api.export_vault_audit: a stretch of the ledger, oldest first ---------------------------------------------------
create function api.export_vault_audit(
  p_key_hash bytea, p_subject text, p_email text, p_vault_id uuid, p_now timestamptz, p_after_seq bigint,
  p_from timestamptz, p_to timestamptz, p_limit int
)
returns jsonb
language plpgsql
security definer
set search_path = ''
set lock_timeout = '5s'
as $$
declare
  v_visit app.vault_visit := app.enter_vault(p_vault_id, p_key_hash, p_subject, p_email, p_now);
begin
  return jsonb_build_object(
    'head_seq', (v_visit.vault).audit_seq,
    'head_hash', encode((v_visit.vault).audit_hash, 'hex'),
    'entries', coalesce((
      select jsonb_agg(app.show_audit_entry(app.as_audit_entry(e)) order by e.seq)
        from (
          select * from app.vault_audit_entries
           where vault_id = p_vault_id and seq > p_after_seq
             and (p_from is null or created_at >= p_from) and (p_to is null or created_at <= p_to)
           order by seq limit p_limit
        ) e), '[]'));
end
$$;
revoke execute on function api.export_vault_audit(
  bytea, text, text, uuid, timestamptz, bigint, timestamptz, timestamptz, int) from public, anon, authenticated;
grant execute on function api.export_vault_audit(
  bytea, text, text, uuid, timestamptz, bigint, timestamptz, timestamptz, int) to service_role;
