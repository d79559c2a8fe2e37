-- STAND-INS, for tests only: what Supabase has and plain Postgres has not, reduced to what the migrations touch. They
-- have the signatures of pg_cron 1.6, pg_net 0.14 and supabase_vault 0.3, keep what they are given, and do nothing else.

create schema cron;
create table cron.job (
  jobid bigint generated always as identity primary key,
  jobname text unique,
  schedule text not null,
  command text not null,
  username text not null default current_user,
  active boolean not null default true
);
create table cron.job_run_details (
  jobid bigint,
  status text,
  return_message text,
  start_time timestamptz default now(),
  end_time timestamptz default now()
);
create function cron.schedule(job_name text, schedule text, command text) returns bigint
language sql as $$
  insert into cron.job (jobname, schedule, command) values (job_name, schedule, command)
  on conflict (jobname) do update set schedule = excluded.schedule, command = excluded.command
  returning jobid
$$;
create function cron.unschedule(job_name text) returns boolean
language sql as $$
  delete from cron.job where jobname = job_name returning true
$$;

create schema net;
create table net.sent (
  id bigint generated always as identity primary key,
  url text, body jsonb, params jsonb, headers jsonb, timeout_milliseconds int
);
create function net.http_post(
  url text, body jsonb default '{}', params jsonb default '{}',
  headers jsonb default '{"Content-Type": "application/json"}', timeout_milliseconds int default 5000
) returns bigint
language sql as $$
  insert into net.sent (url, body, params, headers, timeout_milliseconds) values ($1, $2, $3, $4, $5) returning id
$$;

create schema vault;
create table vault.secrets (
  id uuid primary key default gen_random_uuid(),
  name text unique,
  description text not null default '',
  secret text not null
);
create view vault.decrypted_secrets as
  select id, name, description, secret, secret as decrypted_secret from vault.secrets;
create function vault.create_secret(
  new_secret text, new_name text default null, new_description text default '', new_key_id uuid default null
) returns uuid
language sql as $$
  insert into vault.secrets (secret, name, description) values (new_secret, new_name, new_description) returning id
$$;
create function vault.update_secret(
  secret_id uuid, new_secret text default null, new_name text default null, new_description text default null,
  new_key_id uuid default null
) returns void
language sql as $$
  update vault.secrets set secret = coalesce(new_secret, secret), name = coalesce(new_name, name) where id = secret_id
$$;

create schema storage;
create table storage.buckets (
  id text primary key,
  name text not null unique,
  public boolean default false,
  file_size_limit bigint,
  allowed_mime_types text[]
);
create table storage.objects (
  id uuid primary key default gen_random_uuid(),
  bucket_id text references storage.buckets (id),
  name text
);
alter table storage.buckets enable row level security;
alter table storage.objects enable row level security;
