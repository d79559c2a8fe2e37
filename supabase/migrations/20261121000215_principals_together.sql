-- Who is asking, for several requests at once. A function that is called for each row costs more than the row.

-- app.find_principals: whose credentials these are -------------------------------------------------------------
-- The arrays run in parallel; there is a row for each credential, in their order. Of a good one `refusal` is null; the
-- owner of a project token that nobody has written with is null, too.
create function app.find_principals(p_credential_kinds text[], p_credential_hashes bytea[])
returns table (
  owner_id uuid, account_id uuid, member_id uuid, metered boolean, role text, key_id uuid, refusal text
)
language plpgsql
stable
rows 10
set search_path = ''
set plan_cache_mode = force_generic_plan -- arrays would have it planned anew at each call
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
begin
  return query
    select case when r.kind = 'project' then a.id else coalesce(k.team_id, k.account_id) end,
           case when r.kind = 'project' then a.id when k.team_id is null then k.account_id else t.account_id end,
           case when r.kind = 'project' then a.id else k.account_id end,
           r.kind <> 'project',
           case when r.kind = 'project' or k.team_id is null then 'admin' else m.role end,
           k.id,
           case
             when r.kind = 'project' then null
             when k.id is null then 'invalid_api_key'
             when k.revoked_at is not null then 'api_key_revoked'
             when k.account_id is null then 'owner_not_found'
             -- A key with scopes acts as nobody here.
             when k.scopes is not null then 'forbidden_scope'
             when k.team_id is not null and m.role is null then 'api_key_revoked'
           end
      from unnest(p_credential_kinds, p_credential_hashes) with ordinality as r (kind, hash, place)
      -- Each is looked up by itself: joined, small tables would be read whole, and still be once they have grown.
      left join lateral (select * from app.api_keys i where i.key_hash = r.hash limit 1) k on r.kind <> 'project'
      left join lateral (select * from app.teams i where i.id = k.team_id limit 1) t on true
      left join lateral (
        select n.role from app.team_members n
         where n.team_id = t.id and n.account_id = k.account_id and n.status = 'active' limit 1
      ) m on true
      left join lateral (select i.id from app.accounts i where i.token_hash = r.hash limit 1) a on r.kind = 'project'
     order by r.place;
end
$$;
revoke execute on function app.find_principals(text[], bytea[]) from public, anon, authenticated;

-- app.find_principal: as before, by the same rules -------------------------------------------------------------
create or replace function app.find_principal(
  p_credential_kind text, p_credential_hash bytea, out principal app.principal, out refusal text
)
language plpgsql
stable
set search_path = ''
as $$
declare
  v_found record;
begin
  select * into v_found from app.find_principals(array[p_credential_kind], array[p_credential_hash]);
  principal := row(
    v_found.owner_id, v_found.account_id, v_found.member_id, v_found.metered, v_found.role, v_found.key_id
  )::app.principal;
  refusal := v_found.refusal;
end
$$;
revoke execute on function app.find_principal(text, bytea) from public, anon, authenticated;

-- app.price_milli: as before; in SQL it would be read and planned anew by every statement ---------------------
create or replace function app.price_milli(p_bytes bigint)
returns bigint
language plpgsql
immutable
parallel safe
set search_path = ''
as $$
begin
  return (p_bytes * 45 + 999) / 1000;
end
$$;
revoke execute on function app.price_milli(bigint) from public, anon, authenticated;
