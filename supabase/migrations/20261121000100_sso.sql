-- Single sign-on: which identity provider a team's people sign in with, and the roles that its directory
-- gives them. Spec 4.8 and 5.
--
-- What the provider's metadata says has been checked before it comes here: this file holds the outcome. The
-- service never verifies an assertion; whoever issues sessions does, and is told of the provider where that
-- is Supabase Auth. `group_roles` and `default_role` are for provisioning (the files after this one) and need
-- no provider.

create table app.sso_configs (
  team_id uuid primary key references app.teams (id) on delete cascade,
  -- All of the provider or nothing of it.
  metadata_xml text check (octet_length(metadata_xml) <= 262144),
  metadata_url text check (char_length(metadata_url) <= 2048),
  entity_id text check (char_length(entity_id) between 1 and 1024),
  sso_url text check (char_length(sso_url) <= 2048),
  sso_binding text,
  -- [{"fingerprint_sha256", "expires_at"}], those for signing, the one that lasts longest first.
  certificates jsonb not null default '[]' check (jsonb_typeof(certificates) = 'array'),
  -- When the last of them expires: nobody can sign in after that. For whoever warns of it in time.
  certificate_expires_at timestamptz,
  domains text[] not null default '{}',
  attribute_mapping jsonb not null default '{}' check (jsonb_typeof(attribute_mapping) = 'object'),
  default_role text not null default 'read' check (default_role in ('admin', 'write', 'read')),
  -- From the names of the directory's groups to roles.
  group_roles jsonb not null default '{}' check (jsonb_typeof(group_roles) = 'object'),
  enabled boolean not null default false,
  -- The provider at Supabase Auth, and whose metadata it has.
  provider_id uuid unique,
  provider_entity_id text,
  -- Since when a provider is being made there, and for which entity: it may exist without our knowing its id.
  registering_since timestamptz,
  registering_entity_id text,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  check (num_nonnulls(metadata_xml, entity_id, sso_url, sso_binding, certificate_expires_at) in (0, 5)),
  check (not enabled or metadata_xml is not null),
  check ((registering_since is null) = (registering_entity_id is null))
);
create unique index sso_configs_entity on app.sso_configs (entity_id) where enabled;
create index sso_configs_expiring on app.sso_configs (certificate_expires_at) where enabled;

-- Each domain leads to one provider: while a configuration is enabled its domains are here.
create table app.sso_domains (
  domain text primary key,
  team_id uuid not null references app.sso_configs (team_id) on delete cascade
);
create index sso_domains_by_team on app.sso_domains (team_id);

alter table app.sso_configs enable row level security;
alter table app.sso_domains enable row level security;

-- app.require_plan: what the account that owns a team has subscribed to -------------------------------------
create function app.require_plan(p_team app.teams, p_plan text)
returns void
language plpgsql
set search_path = ''
as $$
declare
  v_plan text;
begin
  select plan into v_plan from app.subscriptions
   where account_id = p_team.account_id and status in ('active', 'trialing', 'past_due');
  if v_plan is distinct from p_plan then
    perform app.refuse('plan_required',
      jsonb_build_object('plan', coalesce(v_plan, 'free'), 'required_plan', p_plan));
  end if;
end
$$;
revoke execute on function app.require_plan(app.teams, text) from public, anon, authenticated;

-- app.enter_sso: an admin of a team whose plan has single sign-on -------------------------------------------
create function app.enter_sso(p_team_id uuid, p_subject text, p_email text, p_lock boolean)
returns app.team_actor
language plpgsql
set search_path = ''
as $$
declare
  v_actor app.team_actor := app.enter_team(p_team_id, p_subject, p_email, 'admin', p_lock);
begin
  perform app.require_plan(v_actor.team, 'enterprise');
  return v_actor;
end
$$;
revoke execute on function app.enter_sso(uuid, text, text, boolean) from public, anon, authenticated;

-- app.show_sso_config: a configuration as an admin sees it --------------------------------------------------
create function app.show_sso_config(p_config app.sso_configs)
returns jsonb
language sql
stable
set search_path = ''
as $$
  select jsonb_build_object(
    'team_id', p_config.team_id,
    'entity_id', p_config.entity_id,
    'sso_url', p_config.sso_url,
    'sso_binding', p_config.sso_binding,
    'metadata_url', p_config.metadata_url,
    'certificates', p_config.certificates,
    'certificate_expires_at', app.iso(p_config.certificate_expires_at),
    'domains', to_jsonb(p_config.domains),
    'attribute_mapping', p_config.attribute_mapping,
    'default_role', p_config.default_role,
    'group_roles', p_config.group_roles,
    'enabled', p_config.enabled,
    'provider_id', p_config.provider_id,
    'created_at', app.iso(p_config.created_at),
    'updated_at', app.iso(p_config.updated_at)
  )
$$;
revoke execute on function app.show_sso_config(app.sso_configs) from public, anon, authenticated;

-- api.read_sso_config: the configuration, with its metadata when asked for ----------------------------------
create function api.read_sso_config(p_subject text, p_email text, p_team_id uuid, p_raw boolean)
returns jsonb
language plpgsql
security definer
set search_path = ''
as $$
declare
  v_config app.sso_configs;
begin
  perform app.enter_sso(p_team_id, p_subject, p_email, false);
  select * into v_config from app.sso_configs where team_id = p_team_id;
  if not found then
    perform app.refuse('sso_not_configured');
  end if;
  return app.show_sso_config(v_config)
    || case when p_raw then jsonb_build_object('metadata_xml', v_config.metadata_xml) else '{}' end;
end
$$;
revoke execute on function api.read_sso_config(text, text, uuid, boolean) from public, anon, authenticated;
grant execute on function api.read_sso_config(text, text, uuid, boolean) to service_role;

-- app.require_free: no other team's enabled configuration has the entity or one of the domains --------------
create function app.require_free(p_team_id uuid, p_entity_id text, p_domains text[])
returns void
language plpgsql
stable
set search_path = ''
as $$
declare
  v_taken text;
begin
  if exists (
    select from app.sso_configs where entity_id = p_entity_id and enabled and team_id <> p_team_id
  ) then
    perform app.refuse('sso_entity_taken');
  end if;
  select min(domain) into v_taken
    from app.sso_domains where domain = any (p_domains) and team_id <> p_team_id;
  if v_taken is not null then
    perform app.refuse('sso_domain_taken', jsonb_build_object('domain', v_taken));
  end if;
end
$$;
revoke execute on function app.require_free(uuid, text, text[]) from public, anon, authenticated;

-- api.check_sso_change: may the caller change the configuration, and what is there? -------------------------
-- Asked before an address of theirs is fetched. Returns {"configured", "has_metadata", "metadata_xml",
-- "enabled", "domains", "attribute_mapping", "entity_id", "provider_id", "provider_entity_id"}.
create function api.check_sso_change(p_subject text, p_email text, p_team_id uuid)
returns jsonb
language plpgsql
security definer
set search_path = ''
as $$
declare
  v_config app.sso_configs;
begin
  perform app.enter_sso(p_team_id, p_subject, p_email, false);
  select * into v_config from app.sso_configs where team_id = p_team_id;
  return jsonb_build_object(
    'configured', v_config.team_id is not null,
    'has_metadata', v_config.metadata_xml is not null,
    'metadata_xml', v_config.metadata_xml,
    'enabled', coalesce(v_config.enabled, false),
    'domains', to_jsonb(coalesce(v_config.domains, '{}')),
    'attribute_mapping', coalesce(v_config.attribute_mapping, '{}'),
    'entity_id', v_config.entity_id,
    'provider_id', v_config.provider_id,
    'provider_entity_id', v_config.provider_entity_id);
end
$$;
revoke execute on function api.check_sso_change(text, text, uuid) from public, anon, authenticated;
grant execute on function api.check_sso_change(text, text, uuid) to service_role;

-- api.begin_sso_registration: a provider is about to be made at Supabase Auth -------------------------------
-- Refuses what could not be saved afterwards, and leaves a mark. Whoever finds the mark of an earlier attempt
-- may take over a provider of that entity that was made since then, and no other: it can only be the attempt's
-- own. An hour later the mark means nothing. Returns {"since"}: when the first attempt began.
create function api.begin_sso_registration(
  p_subject text, p_email text, p_team_id uuid, p_entity_id text, p_domains text[]
)
returns jsonb
language plpgsql
security definer
set search_path = ''
set lock_timeout = '5s'
as $$
declare
  v_since timestamptz;
begin
  perform app.enter_sso(p_team_id, p_subject, p_email, true);
  perform app.require_free(p_team_id, p_entity_id, p_domains);
  insert into app.sso_configs as c (team_id, registering_since, registering_entity_id)
  values (p_team_id, now(), p_entity_id)
  on conflict (team_id) do update
    set registering_since = case
          when c.registering_entity_id = excluded.registering_entity_id
               and c.registering_since > now() - interval '1 hour' then c.registering_since
          else excluded.registering_since end,
        registering_entity_id = excluded.registering_entity_id
  returning registering_since into v_since;
  return jsonb_build_object('since', app.iso(v_since));
end
$$;
revoke execute on function api.begin_sso_registration(text, text, uuid, text, text[])
  from public, anon, authenticated;
grant execute on function api.begin_sso_registration(text, text, uuid, text, text[]) to service_role;

-- api.end_sso_registration: it was refused for good, so there is nothing to take over -----------------------
create function api.end_sso_registration(p_team_id uuid)
returns jsonb
language plpgsql
security definer
set search_path = ''
as $$
begin
  update app.sso_configs set registering_since = null, registering_entity_id = null where team_id = p_team_id;
  return jsonb_build_object('ok', true);
end
$$;
revoke execute on function api.end_sso_registration(uuid) from public, anon, authenticated;
grant execute on function api.end_sso_registration(uuid) to service_role;
