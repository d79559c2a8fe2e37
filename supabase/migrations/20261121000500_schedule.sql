-- What has to happen without anybody asking, and who makes it happen.
--
-- app.list_schedule is the one list of scheduled jobs; each is a POST to a route with the cron secret. On Supabase,
-- pg_cron calls app.call_job, which reads the address and the secret from the Vault and sends the request with pg_net.
-- Elsewhere these three do not exist: `task start` reads the same list and makes the same requests. Either way the
-- service notes each run that went well, because pg_cron only knows that a request was queued.

-- app.job_runs: when each job last went well -----------------------------------------------------------------
create table app.job_runs (
  path text primary key,
  succeeded_at timestamptz not null
);
alter table app.job_runs enable row level security;

-- app.list_schedule: the jobs --------------------------------------------------------------------------------
-- `every_minutes` is a divisor of an hour, or an hour, or a day. A migration that changes the list calls
-- app.schedule_jobs afterwards.
create function app.list_schedule()
returns table (name text, function text, path text, every_minutes int, timeout_seconds int)
language sql
immutable
set search_path = ''
as $$
  values
    ('agent-state-webhooks', 'v2-agent-state', '/webhooks/dispatch', 1, 55),
    ('agent-state-lifecycle', 'v2-agent-state', '/lifecycle/dispatch', 1, 55),
    ('agent-state-retention', 'v2-agent-state', '/retention/purge', 60, 120),
    ('agent-state-release', 'vault', '/release/dispatch', 5, 120)
$$;
revoke execute on function app.list_schedule() from public, anon, authenticated;

-- app.cron_expression: an interval as cron spells it ---------------------------------------------------------
-- Jobs of an hour or a day do not start on the hour, when everybody's do.
create function app.cron_expression(p_every_minutes int)
returns text
language sql
immutable
set search_path = ''
as $$
  select case
    when p_every_minutes = 1 then '* * * * *'
    when p_every_minutes < 60 then format('*/%s * * * *', p_every_minutes)
    when p_every_minutes = 60 then '17 * * * *'
    when p_every_minutes = 1440 then '17 4 * * *'
  end
$$;
revoke execute on function app.cron_expression(int) from public, anon, authenticated;

-- api.read_schedule: the list for whoever runs it without pg_cron, and for the doctor ------------------------
create function api.read_schedule()
returns jsonb
language sql
stable
security definer
set search_path = ''
as $$
  select jsonb_agg(jsonb_build_object(
      'name', s.name,
      'function', s.function,
      'path', s.path,
      'every_minutes', s.every_minutes,
      'timeout_seconds', s.timeout_seconds,
      'succeeded_at', app.iso(r.succeeded_at)) order by s.name)
    from app.list_schedule() s left join app.job_runs r on r.path = s.path
$$;
revoke execute on function api.read_schedule() from public, anon, authenticated;
grant execute on function api.read_schedule() to service_role;

-- api.record_job_run: a job went well ------------------------------------------------------------------------
create function api.record_job_run(p_path text)
returns void
language sql
security definer
set search_path = ''
as $$
  insert into app.job_runs as r (path, succeeded_at) values (p_path, now())
  on conflict (path) do update set succeeded_at = greatest(r.succeeded_at, excluded.succeeded_at)
$$;
revoke execute on function api.record_job_run(text) from public, anon, authenticated;
grant execute on function api.record_job_run(text) to service_role;

-- app.call_job: one run of a job, by pg_cron -----------------------------------------------------------------
-- Returns the id of the request in pg_net. What is not set up yet fails, with the way out in the message: it is what
-- cron.job_run_details shows.
create function app.call_job(p_name text)
returns bigint
language plpgsql
set search_path = ''
as $$
declare
  v_job record;
  v_url text;
  v_secret text;
begin
  select * into strict v_job from app.list_schedule() s where s.name = p_name;
  select decrypted_secret into v_url from vault.decrypted_secrets where name = 'agent_state_functions_url';
  select decrypted_secret into v_secret from vault.decrypted_secrets where name = 'agent_state_cron_secret';
  if v_url is null or v_secret is null then
    raise exception 'the schedule has no address or no secret'
      using hint = 'select app.configure_schedule(''https://<project-ref>.supabase.co/functions/v1'', ''<CRON_SECRET>'')';
  end if;
  return net.http_post(
    url := v_url || '/' || v_job.function || v_job.path,
    body := '{}'::jsonb,
    headers := jsonb_build_object('content-type', 'application/json', 'authorization', 'Bearer ' || v_secret),
    timeout_milliseconds := v_job.timeout_seconds * 1000);
end
$$;
revoke execute on function app.call_job(text) from public, anon, authenticated;

-- app.schedule_jobs: make pg_cron's jobs those of the list ---------------------------------------------------
-- Adds, changes and removes; only names that begin with `agent-state-` are ours. pg_cron keeps a row of every run for
-- ever, so one more job forgets ours after a week. Returns how many jobs of the list there are now: none where pg_cron
-- is missing.
create function app.schedule_jobs()
returns int
language plpgsql
set search_path = ''
as $$
declare
  v_job record;
  v_gone text;
  v_count int := 0;
begin
  if to_regprocedure('cron.schedule(text,text,text)') is null then
    return 0;
  end if;
  for v_gone in
    select j.jobname from cron.job j
     where j.jobname like 'agent-state-%' and j.jobname <> 'agent-state-history'
       and j.jobname not in (select s.name from app.list_schedule() s)
  loop
    perform cron.unschedule(v_gone);
  end loop;
  for v_job in select s.name, app.cron_expression(s.every_minutes) as expression from app.list_schedule() s loop
    perform cron.schedule(v_job.name, v_job.expression, format('select app.call_job(%L)', v_job.name));
    v_count := v_count + 1;
  end loop;
  perform cron.schedule('agent-state-history', '43 4 * * *',
    'delete from cron.job_run_details where end_time < now() - interval ''7 days'' and jobid in '
      '(select jobid from cron.job where jobname like ''agent-state-%'')');
  return v_count;
end
$$;
revoke execute on function app.schedule_jobs() from public, anon, authenticated;

-- app.configure_schedule: where the jobs go, and what lets them in -------------------------------------------
-- Once after the first deployment, and again whenever CRON_SECRET changes. Each job runs once at once, so that nobody
-- waits for the next hour to see whether it works. Returns how many jobs run now.
create function app.configure_schedule(p_functions_url text, p_cron_secret text)
returns int
language plpgsql
set search_path = ''
as $$
declare
  v_secret record;
  v_id uuid;
  v_count int;
begin
  if p_functions_url !~ '^https?://[^/?#]+/functions/v1$' then
    raise exception 'the address must look like https://<project-ref>.supabase.co/functions/v1';
  end if;
  if p_cron_secret !~ '^[!-~]{16,}$' then
    raise exception 'the secret must have 16 printable characters or more';
  end if;
  for v_secret in
    values ('agent_state_functions_url', p_functions_url), ('agent_state_cron_secret', p_cron_secret)
  loop
    select id into v_id from vault.secrets where name = v_secret.column1;
    if found then
      perform vault.update_secret(v_id, v_secret.column2);
    else
      perform vault.create_secret(v_secret.column2, v_secret.column1);
    end if;
  end loop;
  v_count := app.schedule_jobs();
  if v_count > 0 and to_regproc('net.http_post') is not null then
    perform app.call_job(s.name) from app.list_schedule() s;
  end if;
  return v_count;
end
$$;
revoke execute on function app.configure_schedule(text, text) from public, anon, authenticated;

-- The platform's parts, where it has them --------------------------------------------------------------------
-- A Postgres that offers an extension without being set up for it refuses it; the migration goes on, and
-- `task doctor` says what is missing.
do $$
declare
  v_extension record;
begin
  for v_extension in
    select e.name, case when e.name = 'pg_net' and to_regnamespace('extensions') is not null
                     then ' with schema extensions' else '' end as place
      from pg_available_extensions e
     where e.name in ('pg_cron', 'pg_net', 'supabase_vault') and e.installed_version is null
  loop
    begin
      execute format('create extension %I%s', v_extension.name, v_extension.place);
    exception when others then
      raise warning '% is not enabled: %', v_extension.name, sqlerrm;
    end;
  end loop;
  perform app.schedule_jobs();
end
$$;
