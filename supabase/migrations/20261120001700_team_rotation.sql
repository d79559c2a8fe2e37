-- Rotation: a new data key for everybody who stays, and nobody else. Spec 3, 4.5 and 5; design section 5.

-- app.drop_member: somebody leaves, from this moment ----------------------------------------------------------
-- Their grant is deleted and their sub-keys are revoked. The caller holds the team's lock and has seen to it that
-- an admin stays.
create function app.drop_member(p_team_id uuid, p_account_id uuid)
returns void
language plpgsql
set search_path = ''
as $$
begin
  delete from app.team_grants where team_id = p_team_id and account_id = p_account_id;
  update app.team_members set status = 'revoked' where team_id = p_team_id and account_id = p_account_id;
  update app.api_keys set revoked_at = now()
   where team_id = p_team_id and account_id = p_account_id and revoked_at is null;
end
$$;
revoke execute on function app.drop_member(uuid, uuid) from public, anon, authenticated;

-- app.require_exact_grants: does the rotation name exactly those who hold a grant and stay? --------------------
-- A member who still waits for a first grant has no key to wrap for, and is not named.
create function app.require_exact_grants(p_team_id uuid, p_revoked uuid, p_member_ids text[])
returns void
language plpgsql
stable
set search_path = ''
as $$
declare
  v_missing text[];
  v_unknown text[];
begin
  select array_agg(coalesce(n.subject, h.subject) order by coalesce(n.subject, h.subject))
           filter (where n.subject is null),
         array_agg(n.subject order by n.subject) filter (where h.subject is null)
    into v_missing, v_unknown
    from (select distinct unnest(p_member_ids) as subject) n
    full join (
      select a.subject
        from app.team_grants g join app.accounts a on a.id = g.account_id
       where g.team_id = p_team_id and g.account_id is distinct from p_revoked
    ) h on h.subject = n.subject;
  if v_unknown is not null then
    perform app.refuse('unknown_member', jsonb_build_object('unknown', v_unknown));
  elsif v_missing is not null then
    perform app.refuse('incomplete_grants', jsonb_build_object('missing', v_missing));
  end if;
end
$$;
revoke execute on function app.require_exact_grants(uuid, uuid, text[]) from public, anon, authenticated;

-- api.rotate_team: remove somebody (or nobody), re-wrap for the rest, raise the epoch -------------------------
-- One transaction. `p_expected_seq` is the epoch that the caller rotates from, or null; a rotation from an older
-- one is refused, because its key was wrapped for other people. `p_rotation_id` makes a repeated call harmless.
create function api.rotate_team(
  p_subject text, p_email text, p_team_id uuid, p_revoke_member_id text, p_reason text, p_member_ids text[],
  p_wrapped_deks text[], p_expected_seq int, p_rotation_id uuid
)
returns jsonb
language plpgsql
security definer
set search_path = ''
set lock_timeout = '5s'
as $$
declare
  v_actor app.team_actor := app.enter_team(p_team_id, p_subject, p_email, 'admin', true);
  v_team app.teams := v_actor.team;
  v_revoked uuid;
  v_rewrapped int;
begin
  if exists (
    select from app.audit_entries
     where team_id = p_team_id and action = 'team.rotate' and resource_id = p_rotation_id::text
  ) then
    return app.show_rotation(v_team, p_revoke_member_id, cardinality(p_member_ids), p_reason);
  elsif p_expected_seq <> v_team.rotation_seq then
    perform app.refuse('stale_rotation', jsonb_build_object('rotation_seq', v_team.rotation_seq));
  end if;

  if p_revoke_member_id is not null then
    select m.account_id into v_revoked
      from app.team_members m join app.accounts a on a.id = m.account_id
     where m.team_id = p_team_id and m.status = 'active' and a.subject = p_revoke_member_id;
    if v_revoked is null then
      perform app.refuse('unknown_member', jsonb_build_object('unknown', array[p_revoke_member_id]));
    elsif app.count_admins(p_team_id, v_revoked) = 0 then
      perform app.refuse('last_admin');
    end if;
  end if;
  perform app.require_exact_grants(p_team_id, v_revoked, p_member_ids);

  if v_revoked is not null then
    perform app.drop_member(p_team_id, v_revoked);
    -- Whoever removes the owner pays from now on; for an owner who leaves, the admin of longest standing does.
    update app.teams
       set account_id = (
             select account_id from app.team_members
              where team_id = p_team_id and role = 'admin' and status = 'active'
              order by account_id <> v_actor.account_id, created_at, account_id
              limit 1)
     where id = p_team_id and account_id = v_revoked;
    perform app.append_audit(p_team_id, p_subject, 'member.remove', 'member', p_revoke_member_id,
      jsonb_build_object('reason', p_reason));
  end if;
  update app.teams set rotation_seq = rotation_seq + 1 where id = p_team_id returning * into v_team;
  update app.team_grants g
     set wrapped_dek = n.wrapped_dek, rotation_seq = v_team.rotation_seq, updated_at = now()
    from unnest(p_member_ids, p_wrapped_deks) as n (subject, wrapped_dek)
    join app.accounts a on a.subject = n.subject
   where g.team_id = p_team_id and g.account_id = a.id;
  get diagnostics v_rewrapped = row_count;
  perform app.append_audit(p_team_id, p_subject, 'team.rotate', 'rotation', p_rotation_id::text,
    jsonb_build_object('reason', p_reason, 'rotation_seq', v_team.rotation_seq, 'rewrapped', v_rewrapped,
      'revoked', p_revoke_member_id));
  if v_revoked is not null then
    perform app.emit_event(v_team.account_id, 'member.removed', jsonb_build_object(
      'team_id', p_team_id, 'member_id', p_revoke_member_id));
  end if;
  perform app.emit_event(v_team.account_id, 'team.rotated', jsonb_build_object(
    'team_id', p_team_id, 'rotation_seq', v_team.rotation_seq, 'rewrapped', v_rewrapped));
  return app.show_rotation(v_team, p_revoke_member_id, v_rewrapped, p_reason);
end
$$;
revoke execute on function api.rotate_team(text, text, uuid, text, text, text[], text[], int, uuid)
  from public, anon, authenticated;
grant execute on function api.rotate_team(text, text, uuid, text, text, text[], text[], int, uuid)
  to service_role;

-- app.show_rotation -------------------------------------------------------------------------------------------
create function app.show_rotation(p_team app.teams, p_revoked text, p_rewrapped int, p_reason text)
returns jsonb
language sql
stable
set search_path = ''
as $$
  select jsonb_build_object(
    'team_id', p_team.id,
    'rotation_seq', p_team.rotation_seq,
    'revoked', p_revoked,
    'rewrapped', p_rewrapped,
    'reason', p_reason
  )
$$;
revoke execute on function app.show_rotation(app.teams, text, int, text) from public, anon, authenticated;
