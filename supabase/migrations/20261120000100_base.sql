-- The ground that every other migration stands on: two schemas, who may do what in them, and how a function
-- refuses a request.
--
-- `app` holds tables and internals; no role but the owner can reach it. `api` holds the functions that the edge
-- functions call; only `service_role` may execute them. Both are safe to expose to a project that also has a REST
-- layer: nothing here is granted to `anon` or `authenticated`.

-- Roles ------------------------------------------------------------------------------------------------------
-- They exist on Supabase. Plain Postgres gets the same three, so that the same grants mean the same thing.
do $$
begin
  if not exists (select from pg_roles where rolname = 'anon') then
    create role anon nologin;
  end if;
  if not exists (select from pg_roles where rolname = 'authenticated') then
    create role authenticated nologin;
  end if;
  if not exists (select from pg_roles where rolname = 'service_role') then
    create role service_role nologin;
  end if;
end
$$;

-- Schemas ----------------------------------------------------------------------------------------------------
create schema app;
create schema api;

revoke all on schema app from public, anon, authenticated, service_role;
revoke all on schema api from public, anon, authenticated;
grant usage on schema api to service_role;

-- Supabase grants new tables and functions to its roles by default privileges; take that back in these schemas.
alter default privileges in schema app revoke all on tables from public, anon, authenticated, service_role;
alter default privileges in schema app revoke all on sequences from public, anon, authenticated, service_role;
alter default privileges in schema app revoke all on functions from public, anon, authenticated, service_role;
alter default privileges in schema api revoke all on functions from public, anon, authenticated, service_role;

-- The hosted REST layer learns of schema `api` from its login role. Self-hosted stacks list it in config.toml.
do $$
declare
  v_schemas text;
begin
  if exists (select from pg_roles where rolname = 'authenticator') then
    select split_part(setting, '=', 2) into v_schemas
      from pg_roles, unnest(rolconfig) as setting
     where rolname = 'authenticator' and setting like 'pgrst.db_schemas=%';
    if v_schemas is null then
      v_schemas := 'public, graphql_public';
    end if;
    if not 'api' = any (string_to_array(replace(v_schemas, ' ', ''), ',')) then
      execute format('alter role authenticator set pgrst.db_schemas = %L', v_schemas || ', api');
      notify pgrst, 'reload config';
    end if;
  end if;
end
$$;

-- app.refuse: every refusal of a request ---------------------------------------------------------------------
-- One private SQLSTATE for all of them; the message is the wire code and the detail its extra fields as JSON.
-- `22ZKE` is an implementation-defined subclass of "data exception", so that PostgREST answers it with a 4xx and
-- its message intact. `platform/database.ts` is the only place that turns it into an answer.
create function app.refuse(p_code text, p_details jsonb default '{}')
returns void
language plpgsql
immutable
set search_path = ''
as $$
begin
  raise exception using errcode = '22ZKE', message = p_code, detail = p_details::text;
end
$$;
revoke execute on function app.refuse(text, jsonb) from public, anon, authenticated;

-- app.iso: a timestamp as the API spells it ------------------------------------------------------------------
create function app.iso(p_at timestamptz)
returns text
language plpgsql -- which keeps its plan; an SQL function is planned anew at each call
stable
parallel safe
set search_path = ''
as $$
begin
  return to_char(p_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"');
end
$$;
revoke execute on function app.iso(timestamptz) from public, anon, authenticated;

-- api.ping: does the database answer? ------------------------------------------------------------------------
create function api.ping()
returns jsonb
language sql
stable
security definer
set search_path = ''
as $$
  select jsonb_build_object('ok', true)
$$;
revoke execute on function api.ping() from public, anon, authenticated;
grant execute on function api.ping() to service_role;
