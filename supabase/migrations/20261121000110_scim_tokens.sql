-- SCIM tokens: what a directory shows to provision a team. Spec 4.8 and 5.
--
-- A token acts for its team and sees nothing of another. Like every secret it is kept as its SHA-256 only.
-- When the plan ends, tokens go on reading and taking away, and can be listed and revoked: only giving needs
-- the plan.

create table app.scim_tokens (
  id uuid primary key default gen_random_uuid(),
  team_id uuid not null references app.teams (id) on delete cascade,
  name text not null check (char_length(name) between 1 and 128),
  token_hash bytea not null unique check (octet_length(token_hash) = 32),
  masked_token text not null,
  created_at timestamptz not null default now(),
  revoked_at timestamptz,
  last_used_at timestamptz
);
create index scim_tokens_by_team on app.scim_tokens (team_id, created_at);
alter table app.scim_tokens enable row level security;

-- Who acts in a SCIM request: a team, and the token as the ledger names it.
create type app.scim_actor as (team app.teams, name text);

-- app.show_scim_token: a token as an admin sees it ----------------------------------------------------------
create function app.show_scim_token(p_token app.scim_tokens)
returns jsonb
language sql
stable
set search_path = ''
as $$
  select jsonb_build_object(
    'id', p_token.id,
    'name', p_token.name,
    'prefix', 'scim_',
    'masked_token', p_token.masked_token,
    'created_at', app.iso(p_token.created_at),
    'revoked_at', app.iso(p_token.revoked_at),
    'last_used_at', app.iso(p_token.last_used_at),
    'state', case when p_token.revoked_at is null then 'active' else 'revoked' end
  )
$$;
revoke execute on function app.show_scim_token(app.scim_tokens) from public, anon, authenticated;

-- api.create_scim_token: at most twenty that are active. The same hash again returns the same token ---------
create function api.create_scim_token(
  p_subject text, p_email text, p_team_id uuid, p_name text, p_token_hash bytea, p_masked_token text
)
returns jsonb
language plpgsql
security definer
set search_path = ''
set lock_timeout = '5s'
as $$
declare
  v_actor app.team_actor := app.enter_sso(p_team_id, p_subject, p_email, true);
  v_token app.scim_tokens;
begin
  select * into v_token from app.scim_tokens where token_hash = p_token_hash and team_id = p_team_id;
  if not found then
    if (select count(*) from app.scim_tokens where team_id = p_team_id and revoked_at is null) >= 20 then
      perform app.refuse('scim_token_limit_reached', '{"limit": 20}');
    end if;
    insert into app.scim_tokens (team_id, name, token_hash, masked_token)
    values (p_team_id, p_name, p_token_hash, p_masked_token)
    returning * into v_token;
    perform app.append_audit(p_team_id, p_subject, 'scim_token.create', 'scim_token', v_token.id::text,
      jsonb_build_object('name', p_name));
  end if;
  return app.show_scim_token(v_token);
end
$$;
revoke execute on function api.create_scim_token(text, text, uuid, text, bytea, text)
  from public, anon, authenticated;
grant execute on function api.create_scim_token(text, text, uuid, text, bytea, text) to service_role;

-- app.enter_scim_tokens: an admin who may look at tokens: with the plan, or while there are some ------------
create function app.enter_scim_tokens(p_team_id uuid, p_subject text, p_email text, p_lock boolean)
returns app.team_actor
language plpgsql
set search_path = ''
as $$
declare
  v_actor app.team_actor := app.enter_team(p_team_id, p_subject, p_email, 'admin', p_lock);
begin
  if not exists (select from app.scim_tokens where team_id = p_team_id) then
    perform app.require_plan(v_actor.team, 'enterprise');
  end if;
  return v_actor;
end
$$;
revoke execute on function app.enter_scim_tokens(uuid, text, text, boolean) from public, anon, authenticated;

-- api.list_scim_tokens: active and revoked, newest first ----------------------------------------------------
create function api.list_scim_tokens(p_subject text, p_email text, p_team_id uuid)
returns jsonb
language plpgsql
security definer
set search_path = ''
as $$
begin
  perform app.enter_scim_tokens(p_team_id, p_subject, p_email, false);
  return coalesce((
    select jsonb_agg(app.show_scim_token(t) order by t.created_at desc, t.id)
      from app.scim_tokens t where t.team_id = p_team_id
  ), '[]');
end
$$;
revoke execute on function api.list_scim_tokens(text, text, uuid) from public, anon, authenticated;
grant execute on function api.list_scim_tokens(text, text, uuid) to service_role;

-- api.revoke_scim_token: for good; again answers the same ---------------------------------------------------
create function api.revoke_scim_token(p_subject text, p_email text, p_team_id uuid, p_token_id uuid)
returns jsonb
language plpgsql
security definer
set search_path = ''
set lock_timeout = '5s'
as $$
declare
  v_token app.scim_tokens;
begin
  perform app.enter_scim_tokens(p_team_id, p_subject, p_email, true);
  select * into v_token from app.scim_tokens where id = p_token_id and team_id = p_team_id;
  if not found then
    perform app.refuse('scim_token_not_found');
  elsif v_token.revoked_at is null then
    update app.scim_tokens set revoked_at = now() where id = p_token_id returning * into v_token;
    perform app.append_audit(p_team_id, p_subject, 'scim_token.revoke', 'scim_token', p_token_id::text, '{}');
  end if;
  return jsonb_build_object(
    'id', v_token.id, 'revoked_at', app.iso(v_token.revoked_at), 'message', 'scim_token_revoked');
end
$$;
revoke execute on function api.revoke_scim_token(text, text, uuid, uuid) from public, anon, authenticated;
grant execute on function api.revoke_scim_token(text, text, uuid, uuid) to service_role;

-- app.enter_scim: the team that a token acts for ------------------------------------------------------------
-- Locks the team's row when something is about to be changed, and notes the use to the minute.
create function app.enter_scim(p_token_hash bytea, p_lock boolean)
returns app.scim_actor
language plpgsql
set search_path = ''
as $$
declare
  v_token app.scim_tokens;
  v_actor app.scim_actor;
begin
  select * into v_token from app.scim_tokens where token_hash = p_token_hash;
  if not found then
    perform app.refuse('invalid_scim_token');
  end if;
  if p_lock then
    select t as team into v_actor.team from app.teams t where t.id = v_token.team_id for no key update;
    -- It may have been revoked while we waited.
    select * into v_token from app.scim_tokens where id = v_token.id;
  else
    select t as team into v_actor.team from app.teams t where t.id = v_token.team_id;
  end if;
  if v_token.revoked_at is not null then
    perform app.refuse('scim_token_revoked');
  end if;
  v_actor.name := 'scim:' || v_token.id;
  if v_token.last_used_at is distinct from date_trunc('minute', now()) then
    update app.scim_tokens set last_used_at = date_trunc('minute', now())
     where id in (select id from app.scim_tokens where id = v_token.id for no key update skip locked);
  end if;
  return v_actor;
end
$$;
revoke execute on function app.enter_scim(bytea, boolean) from public, anon, authenticated;

-- api.check_scim_token: refuse a token that is not good, before a request's faults are named ----------------
create function api.check_scim_token(p_token_hash bytea)
returns jsonb
language plpgsql
security definer
set search_path = ''
as $$
begin
  perform app.enter_scim(p_token_hash, false);
  return jsonb_build_object('ok', true);
end
$$;
revoke execute on function api.check_scim_token(bytea) from public, anon, authenticated;
grant execute on function api.check_scim_token(bytea) to service_role;
