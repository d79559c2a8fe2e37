-- The directory of a team: the users and groups that its identity provider has told us of. Spec 4.8.
--
-- An active user is a member of the team. Until the person has signed in there is no account to be that
-- member: the user stands in the roster and takes a seat, and becomes the person's membership at their first
-- session with the user's e-mail address (next file). Every row carries its team, and every reference
-- includes it, so that no group of one team can hold a user of another.

create table app.scim_users (
  id uuid primary key,
  team_id uuid not null references app.teams (id) on delete cascade,
  user_name text not null check (user_name <> ''),
  external_id text,
  -- The address that the person is expected to sign in with; null when the directory gives none.
  email text check (email <> ''),
  active boolean not null,
  -- The resource as it was sent, but for what has a column here.
  attributes jsonb not null check (jsonb_typeof(attributes) = 'object'),
  -- The person, once they are known.
  account_id uuid references app.accounts (id) on delete set null,
  -- What the directory gave last, and what a member had before the directory knew them (null: the default
  -- role).
  role text not null check (role in ('admin', 'write', 'read')),
  base_role text check (base_role in ('admin', 'write', 'read')),
  version int not null default 1,
  -- The last change that was asked for, so that a repeated call finds it done.
  change_id uuid not null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  unique (team_id, id)
) with (fillfactor = 80);
create unique index scim_users_user_name on app.scim_users (team_id, lower(user_name));
create unique index scim_users_email on app.scim_users (team_id, lower(email)) where active;
create unique index scim_users_account on app.scim_users (team_id, account_id) where active;
create index scim_users_external_id on app.scim_users (team_id, external_id);
create index scim_users_by_account on app.scim_users (account_id);
create index scim_users_newest on app.scim_users (team_id, created_at, id);
-- Those who wait for their person, as every session looks for them.
create index scim_users_expected on app.scim_users (lower(email)) where active and account_id is null;

create table app.scim_groups (
  id uuid primary key,
  team_id uuid not null references app.teams (id) on delete cascade,
  display_name text not null check (display_name <> ''),
  external_id text,
  version int not null default 1,
  change_id uuid not null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  unique (team_id, id)
);
create unique index scim_groups_display_name on app.scim_groups (team_id, lower(display_name));
create index scim_groups_external_id on app.scim_groups (team_id, external_id);
create index scim_groups_newest on app.scim_groups (team_id, created_at, id);

create table app.scim_group_members (
  team_id uuid not null,
  group_id uuid not null,
  user_id uuid not null,
  primary key (group_id, user_id),
  foreign key (team_id, group_id) references app.scim_groups (team_id, id) on delete cascade,
  foreign key (team_id, user_id) references app.scim_users (team_id, id) on delete cascade
);
create index scim_group_members_of_group on app.scim_group_members (team_id, group_id);
create index scim_group_members_by_user on app.scim_group_members (team_id, user_id);

alter table app.scim_users enable row level security;
alter table app.scim_groups enable row level security;
alter table app.scim_group_members enable row level security;

-- The epoch whose key somebody took along who was removed without a rotation: the server cannot make another
-- key. A rotation is due while that epoch runs.
alter table app.teams add column exposed_rotation_seq int;

-- app.count_seats: as before, and now those who are expected too --------------------------------------------
create or replace function app.count_seats(p_team_id uuid)
returns int
language sql
stable
set search_path = ''
as $$
  select (select count(*) from app.team_members where team_id = p_team_id and status = 'active')::int
       + (select count(*) from app.team_invitations
           where team_id = p_team_id and kind = 'member' and accepted_at is null and expires_at > now())::int
       + (select count(*) from app.scim_users
           where team_id = p_team_id and active and account_id is null)::int
$$;
revoke execute on function app.count_seats(uuid) from public, anon, authenticated;

-- app.tell_owner: as before; of seats that were added at most ten times a day -------------------------------
-- A directory that brings two thousand people must not bring two thousand mails.
create or replace function app.tell_owner(p_team app.teams, p_kind text, p_seats int)
returns void
language plpgsql
set search_path = ''
as $$
declare
  v_email text;
  v_told bigint;
begin
  select email into v_email from app.accounts where id = p_team.account_id;
  select count(*) into v_told from app.mail_outbox
   where kind = p_kind and subject_id = p_team.id and created_at > now() - interval '1 day';
  if v_email is null or v_told >= (case p_kind when 'seat_limit_reached' then 1 else 10 end) then
    return;
  end if;
  perform app.queue_mail(
    p_kind, v_email, p_team.id, jsonb_build_object('team_name', p_team.name, 'seat_count', p_seats));
end
$$;
revoke execute on function app.tell_owner(app.teams, text, int) from public, anon, authenticated;
create index mail_outbox_by_subject on app.mail_outbox (subject_id, kind, created_at);

-- api.list_teams: as before, and `rotation_due` where one is ------------------------------------------------
create or replace function api.list_teams(p_subject text, p_email text)
returns jsonb
language plpgsql
security definer
set search_path = ''
as $$
declare
  v_account_id uuid;
begin
  perform app.link_expected(p_subject, p_email);
  v_account_id := app.open_user(p_subject, p_email);
  return coalesce((
    select jsonb_agg(app.show_team(t, m.role)
             || case when t.exposed_rotation_seq = t.rotation_seq then '{"rotation_due": true}'::jsonb else '{}' end
             order by t.created_at, t.id)
      from app.team_members m join app.teams t on t.id = m.team_id
     where m.account_id = v_account_id and m.status = 'active'
  ), '[]');
end
$$;
revoke execute on function api.list_teams(text, text) from public, anon, authenticated;
grant execute on function api.list_teams(text, text) to service_role;

-- api.list_members: as before, with those who are expected --------------------------------------------------
-- They have no subject yet: until they sign in their member_id is that of the directory's user. Everyone whom
-- the directory manages carries `scim_user_id`.
create or replace function api.list_members(p_subject text, p_email text, p_team_id uuid)
returns jsonb
language plpgsql
security definer
set search_path = ''
as $$
begin
  perform app.enter_team(p_team_id, p_subject, p_email, 'read', false);
  return jsonb_build_object('team_id', p_team_id, 'members', (
    select jsonb_agg(jsonb_build_object(
             'member_id', r.member_id,
             'role', r.role,
             'status', 'active',
             'has_grant', r.has_grant,
             'created_at', app.iso(r.created_at)
           ) || case when r.scim_user_id is null then '{}'
             else jsonb_build_object('scim_user_id', r.scim_user_id) end
           order by r.created_at, r.member_id)
      from (
        select a.subject as member_id, m.role, g.account_id is not null as has_grant, m.created_at,
               u.id as scim_user_id
          from app.team_members m
          join app.accounts a on a.id = m.account_id
          left join app.team_grants g on g.team_id = m.team_id and g.account_id = m.account_id
          left join app.scim_users u on u.team_id = m.team_id and u.account_id = m.account_id and u.active
         where m.team_id = p_team_id and m.status = 'active'
        union all
        select u.id::text, u.role, false, u.created_at, u.id
          from app.scim_users u where u.team_id = p_team_id and u.active and u.account_id is null
      ) r
  ));
end
$$;
revoke execute on function api.list_members(text, text, uuid) from public, anon, authenticated;
grant execute on function api.list_members(text, text, uuid) to service_role;

-- app.refuse_expected: nobody becomes a member under the id of somebody who has not signed in yet -----------
-- There is no public key to wrap the team's key for, and an account of that name would be nobody's.
create function app.refuse_expected()
returns trigger
language plpgsql
set search_path = ''
as $$
begin
  if exists (
    select from app.accounts a join app.scim_users u on u.id::text = a.subject
     where a.id = new.account_id and u.team_id = new.team_id
  ) then
    perform app.refuse('member_not_signed_in');
  end if;
  return new;
end
$$;
revoke execute on function app.refuse_expected() from public, anon, authenticated;
create trigger team_members_have_signed_in before insert on app.team_members
  for each row execute function app.refuse_expected();
