-- A domain leads to a team's identity provider only when its DNS says that it is the team's. Spec 4.8 and 5.
--
-- The record to publish follows from a key of the team and from the domain, so it is the same whenever it is
-- shown, and nobody else's. The service looks it up; these tables hold what it found.

create table app.sso_domain_keys (
  team_id uuid primary key references app.teams (id) on delete cascade,
  key bytea not null default sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()))
);
alter table app.sso_domain_keys enable row level security;
insert into app.sso_domain_keys (team_id) select team_id from app.sso_configs;

-- From now on `app.sso_domains` holds the domains that a team has proved and lists, enabled or not. What was
-- enabled without proof is off until the proof is there.
update app.sso_configs set enabled = false where enabled and domains <> '{}';
delete from app.sso_domains;
alter table app.sso_domains add column verified_at timestamptz not null default now();

-- app.show_sso_domains: what there is to know of a team's proof of domains ----------------------------------
-- [{"domain", "verified", "verified_at", "record": {"type", "name", "value"}}], in the order that is given.
create function app.show_sso_domains(p_team_id uuid, p_domains text[])
returns jsonb
language sql
stable
set search_path = ''
as $$
  select coalesce(jsonb_agg(jsonb_build_object(
           'domain', d.domain,
           'verified', p.domain is not null,
           'verified_at', app.iso(p.verified_at),
           'record', jsonb_build_object(
             'type', 'TXT',
             'name', '_agent-state-challenge.' || d.domain,
             'value', 'agent-state-verification='
               || encode(sha256(k.key || convert_to(d.domain, 'UTF8')), 'hex'))
         ) order by d.place), '[]')
    from unnest(p_domains) with ordinality d (domain, place)
    join app.sso_domain_keys k on k.team_id = p_team_id
    left join app.sso_domains p on p.domain = d.domain and p.team_id = p_team_id
$$;
revoke execute on function app.show_sso_domains(uuid, text[]) from public, anon, authenticated;

-- app.show_sso_config: as before, with the proof of its domains ---------------------------------------------
create or replace function app.show_sso_config(p_config app.sso_configs)
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
    'domain_verification', app.show_sso_domains(p_config.team_id, p_config.domains),
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

-- app.require_free: no other team signs in with the entity, or has proved one of the domains ----------------
create or replace function app.require_free(p_team_id uuid, p_entity_id text, p_domains text[])
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

-- app.require_proved: the team has proved each of the domains -----------------------------------------------
create function app.require_proved(p_team_id uuid, p_domains text[])
returns void
language plpgsql
stable
set search_path = ''
as $$
declare
  v_missing text[] := array(
    select d.domain from unnest(p_domains) with ordinality d (domain, place)
     where not exists (select from app.sso_domains p where p.domain = d.domain and p.team_id = p_team_id)
     order by d.place);
begin
  if v_missing <> '{}' then
    perform app.refuse('domain_not_verified',
      jsonb_build_object('domain_verification', app.show_sso_domains(p_team_id, v_missing)));
  end if;
end
$$;
revoke execute on function app.require_proved(uuid, text[]) from public, anon, authenticated;

-- api.check_sso_change: as before; and which of the domains that there will be are proved -------------------
-- `p_domains` null means those that there are. Returns {"configured", "has_metadata", "metadata_xml",
-- "enabled", "domains", "domain_verification", "attribute_mapping", "entity_id", "provider_id",
-- "provider_entity_id"}.
drop function api.check_sso_change(text, text, uuid);
create function api.check_sso_change(p_subject text, p_email text, p_team_id uuid, p_domains text[])
returns jsonb
language plpgsql
security definer
set search_path = ''
as $$
declare
  v_config app.sso_configs;
begin
  perform app.enter_sso(p_team_id, p_subject, p_email, false);
  insert into app.sso_domain_keys (team_id) values (p_team_id) on conflict do nothing;
  select * into v_config from app.sso_configs where team_id = p_team_id;
  return jsonb_build_object(
    'configured', v_config.team_id is not null,
    'has_metadata', v_config.metadata_xml is not null,
    'metadata_xml', v_config.metadata_xml,
    'enabled', coalesce(v_config.enabled, false),
    'domains', to_jsonb(coalesce(v_config.domains, '{}')),
    'domain_verification', app.show_sso_domains(p_team_id, coalesce(p_domains, v_config.domains, '{}')),
    'attribute_mapping', coalesce(v_config.attribute_mapping, '{}'),
    'entity_id', v_config.entity_id,
    'provider_id', v_config.provider_id,
    'provider_entity_id', v_config.provider_entity_id);
end
$$;
revoke execute on function api.check_sso_change(text, text, uuid, text[]) from public, anon, authenticated;
grant execute on function api.check_sso_change(text, text, uuid, text[]) to service_role;

-- api.vouches_for: may a provider at Supabase Auth assert addresses of this domain? -------------------------
-- Only exactly the domains that the team whose provider it is has proved, while its configuration is enabled.
create function api.vouches_for(p_provider_id uuid, p_domain text)
returns jsonb
language sql
stable
security definer
set search_path = ''
as $$
  select to_jsonb(exists (
    select from app.sso_configs c
      join app.sso_domains d on d.team_id = c.team_id
     where c.provider_id = p_provider_id and c.enabled and d.domain = p_domain))
$$;
revoke execute on function api.vouches_for(uuid, text) from public, anon, authenticated;
grant execute on function api.vouches_for(uuid, text) to service_role;
