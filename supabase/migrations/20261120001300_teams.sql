-- Teams: several people, and their agents, share memory that the server cannot read.
--
-- The server holds public keys, wrapped data keys and ciphertext. A team has an epoch (`rotation_seq`), and every
-- grant is of the running one: a rotation re-wraps all of them and raises the epoch in one transaction. Whatever
-- changes a team locks its row first and looks at the caller's membership after that, so rotations, grants, writes
-- and removals come one after another. Each change has an entry in the audit ledger, written with it (next file).
-- Spec 2.8, 4.5 and 5, rule 7. Lock order: the team's row, then a log's or an agent's, then the account's.

create table app.teams (
  id uuid primary key references app.owners (id) on delete cascade,
  name text not null check (char_length(name) between 1 and 128),
  -- Pays for the sub-keys: who made the team, or the admin who removed them.
  account_id uuid not null references app.accounts (id) on delete restrict,
  rotation_seq int not null default 0 check (rotation_seq >= 0),
  -- Heads of the memory and of the audit ledger; -1 before the first.
  memory_seq bigint not null default -1,
  audit_seq bigint not null default -1,
  audit_hash bytea not null default decode(repeat('00', 32), 'hex') check (octet_length(audit_hash) = 32),
  created_at timestamptz not null default now()
) with (fillfactor = 70);
create index teams_by_account on app.teams (account_id);

create table app.team_members (
  team_id uuid not null references app.teams (id) on delete cascade,
  account_id uuid not null references app.accounts (id) on delete cascade,
  role text not null check (role in ('admin', 'write', 'read')),
  status text not null default 'active' check (status in ('active', 'revoked')),
  created_at timestamptz not null default now(),
  primary key (team_id, account_id)
);
create index team_members_by_account on app.team_members (account_id);

-- A member's copy of the team's data key, wrapped to their public key. Only active members have one.
create table app.team_grants (
  team_id uuid not null,
  account_id uuid not null,
  wrapped_dek text not null,
  member_pubkey text not null,
  rotation_seq int not null,
  updated_at timestamptz not null default now(),
  primary key (team_id, account_id),
  foreign key (team_id, account_id) references app.team_members (team_id, account_id) on delete cascade
);

alter table app.teams enable row level security;
alter table app.team_members enable row level security;
alter table app.team_grants enable row level security;

-- app.rank_role: admin > write > read --------------------------------------------------------------------------
create function app.rank_role(p_role text)
returns int
language sql
immutable
parallel safe
set search_path = ''
as $$
  select array_position(array['read', 'write', 'admin'], p_role)
$$;
revoke execute on function app.rank_role(text) from public, anon, authenticated;

-- Who acts in which team, as they are at this moment.
create type app.team_actor as (team app.teams, account_id uuid, subject text, role text);

-- app.enter_team: the caller's membership, for a role of at least `p_role` ------------------------------------
-- Locks the team's row when the caller is about to change something. An unknown team is like a foreign one.
create function app.enter_team(p_team_id uuid, p_subject text, p_email text, p_role text, p_lock boolean)
returns app.team_actor
language plpgsql
set search_path = ''
as $$
declare
  v_actor app.team_actor;
  v_team app.teams;
begin
  if p_lock then
    select * into v_team from app.teams where id = p_team_id for no key update;
  else
    select * into v_team from app.teams where id = p_team_id;
  end if;
  v_actor.team := v_team;
  v_actor.subject := p_subject;
  -- After the team's lock: an account that is made or changed here is locked too.
  v_actor.account_id := app.open_user(p_subject, p_email);
  select role into v_actor.role from app.team_members
   where team_id = p_team_id and account_id = v_actor.account_id and status = 'active';
  if v_actor.role is null then
    perform app.refuse('not_a_team_member');
  elsif app.rank_role(v_actor.role) < app.rank_role(p_role) then
    perform app.refuse('forbidden_role', jsonb_build_object('role', v_actor.role, 'required_role', p_role));
  end if;
  return v_actor;
end
$$;
revoke execute on function app.enter_team(uuid, text, text, text, boolean) from public, anon, authenticated;
