-- Saving a team's single sign-on, with what was found of its domains. Spec 4.8.

drop function api.save_sso_config(
  text, text, uuid, text, text, text, text, text, text, text[], text, text, text, boolean, boolean, uuid
);

-- api.save_sso_config: what is given replaces what there is; null leaves it ---------------------------------
-- The provider's part (`p_metadata_xml` to `p_certificates`) is given whole or not at all. `p_certificates`
-- is [{"fingerprint_sha256", "expires_at"}] as text, the one that lasts longest first. `p_provider_id` is the
-- provider at Supabase Auth, which `p_set_provider` says to keep. `p_proved` are domains whose record was found
-- just now: they are the team's for as long as it lists them.
create function api.save_sso_config(
  p_subject text, p_email text, p_team_id uuid, p_metadata_xml text, p_metadata_url text, p_entity_id text,
  p_sso_url text, p_sso_binding text, p_certificates text, p_domains text[], p_proved text[],
  p_attribute_mapping text, p_default_role text, p_group_roles text, p_enabled boolean,
  p_set_provider boolean, p_provider_id uuid
)
returns jsonb
language plpgsql
security definer
set search_path = ''
set lock_timeout = '5s'
as $$
declare
  v_actor app.team_actor := app.enter_sso(p_team_id, p_subject, p_email, true);
  v_before app.sso_configs;
  v_config app.sso_configs;
  v_proved int;
begin
  insert into app.sso_configs (team_id) values (p_team_id) on conflict do nothing;
  select * into v_before from app.sso_configs where team_id = p_team_id for no key update;
  v_config := v_before;
  if p_metadata_xml is not null then
    v_config.metadata_xml := p_metadata_xml;
    v_config.metadata_url := p_metadata_url;
    v_config.entity_id := p_entity_id;
    v_config.sso_url := p_sso_url;
    v_config.sso_binding := p_sso_binding;
    v_config.certificates := p_certificates::jsonb;
    v_config.certificate_expires_at := (v_config.certificates -> 0 ->> 'expires_at')::timestamptz;
  end if;
  v_config.domains := coalesce(p_domains, v_config.domains);
  v_config.attribute_mapping := coalesce(p_attribute_mapping::jsonb, v_config.attribute_mapping);
  v_config.default_role := coalesce(p_default_role, v_config.default_role);
  v_config.group_roles := coalesce(p_group_roles::jsonb, v_config.group_roles);
  v_config.enabled := coalesce(p_enabled, v_config.enabled);
  perform app.require_free(p_team_id, case when v_config.enabled then v_config.entity_id end, p_proved);
  update app.sso_configs
     set metadata_xml = v_config.metadata_xml, metadata_url = v_config.metadata_url,
         entity_id = v_config.entity_id, sso_url = v_config.sso_url, sso_binding = v_config.sso_binding,
         certificates = v_config.certificates, certificate_expires_at = v_config.certificate_expires_at,
         domains = v_config.domains, attribute_mapping = v_config.attribute_mapping,
         default_role = v_config.default_role, group_roles = v_config.group_roles, enabled = v_config.enabled,
         provider_id = case when p_set_provider then p_provider_id else provider_id end,
         provider_entity_id = case
           when p_set_provider then case when p_provider_id is null then null else v_config.entity_id end
           else provider_entity_id end,
         registering_since = null, registering_entity_id = null, updated_at = now()
   where team_id = p_team_id
  returning * into v_config;
  delete from app.sso_domains where team_id = p_team_id and domain <> all (v_config.domains);
  insert into app.sso_domains (domain, team_id)
  select distinct d, p_team_id from unnest(p_proved) d
   where d = any (v_config.domains)
     and not exists (select from app.sso_domains p where p.domain = d and p.team_id = p_team_id)
   order by d;
  get diagnostics v_proved = row_count;
  if v_config.enabled then
    perform app.require_proved(p_team_id, v_config.domains);
  end if;
  perform app.append_audit(p_team_id, p_subject, 'sso.update', 'sso_config', p_team_id::text,
    jsonb_build_object(
    'enabled', v_config.enabled, 'entity_id', v_config.entity_id, 'default_role', v_config.default_role,
    'metadata_changed', v_config.metadata_xml is distinct from v_before.metadata_xml,
    'domains_changed', v_config.domains is distinct from v_before.domains, 'domains_verified', v_proved,
    'group_roles_changed', v_config.group_roles is distinct from v_before.group_roles));
  perform app.sync_roles(p_team_id, p_subject, null);
  return app.show_sso_config(v_config);
exception
  -- Two teams at once: the other was first.
  when unique_violation then
    perform app.refuse('sso_domain_taken');
end
$$;
revoke execute on function api.save_sso_config(
  text, text, uuid, text, text, text, text, text, text, text[], text[], text, text, text, boolean,
  boolean, uuid
) from public, anon, authenticated;
grant execute on function api.save_sso_config(
  text, text, uuid, text, text, text, text, text, text, text[], text[], text, text, text, boolean,
  boolean, uuid
) to service_role;
