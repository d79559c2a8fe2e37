-- A person's settings, and the aggregates that they may choose to report. Spec 2.10, 2.11 and 4.7.
--
-- Telemetry is off until somebody switches it on, and the gate is decided here, in the transaction that would
-- store the report.

create table app.settings (
  account_id uuid primary key references app.accounts (id) on delete cascade,
  project_name text not null default '',
  project_desc text not null default '',
  session_lock boolean not null default false,
  hosted_sync boolean not null default true,
  telemetry_opt_in boolean not null default false,
  updated_at timestamptz not null default now()
);

-- One row for each user and UTC day. Only counts: nothing that could say what an agent remembers.
create table app.telemetry (
  account_id uuid not null references app.accounts (id) on delete cascade,
  window_start timestamptz not null check (window_start = date_trunc('day', window_start, 'UTC')),
  memory_count bigint not null default 0 check (memory_count >= 0),
  device_count bigint not null default 0 check (device_count >= 0),
  bytes_stored bigint not null default 0 check (bytes_stored >= 0),
  sync_ops bigint not null default 0 check (sync_ops >= 0),
  reported_at timestamptz not null default now(),
  primary key (account_id, window_start)
);

alter table app.settings enable row level security;
alter table app.telemetry enable row level security;

-- app.show_settings: an account's settings, or the defaults --------------------------------------------------
create function app.show_settings(p_account_id uuid)
returns jsonb
language sql
stable
set search_path = ''
as $$
  select jsonb_build_object(
    'project_name', coalesce(s.project_name, ''),
    'project_desc', coalesce(s.project_desc, ''),
    'session_lock', coalesce(s.session_lock, false),
    'hosted_sync', coalesce(s.hosted_sync, true),
    'telemetry_opt_in', coalesce(s.telemetry_opt_in, false)
  )
    from (select p_account_id as id) a left join app.settings s on s.account_id = a.id
$$;
revoke execute on function app.show_settings(uuid) from public, anon, authenticated;

-- api.read_settings -------------------------------------------------------------------------------------------
create function api.read_settings(p_subject text, p_email text)
returns jsonb
language plpgsql
security definer
set search_path = ''
as $$
begin
  return app.show_settings(app.open_user(p_subject, p_email));
end
$$;
revoke execute on function api.read_settings(text, text) from public, anon, authenticated;
grant execute on function api.read_settings(text, text) to service_role;

-- api.update_settings: change what is given (null: leave as it is) -------------------------------------------
create function api.update_settings(
  p_subject text, p_email text, p_project_name text, p_project_desc text, p_session_lock boolean,
  p_hosted_sync boolean, p_telemetry_opt_in boolean
)
returns jsonb
language plpgsql
security definer
set search_path = ''
as $$
declare
  v_account_id uuid := app.open_user(p_subject, p_email);
begin
  insert into app.settings (account_id) values (v_account_id) on conflict do nothing;
  update app.settings
     set project_name = coalesce(p_project_name, project_name),
         project_desc = coalesce(p_project_desc, project_desc),
         session_lock = coalesce(p_session_lock, session_lock),
         hosted_sync = coalesce(p_hosted_sync, hosted_sync),
         telemetry_opt_in = coalesce(p_telemetry_opt_in, telemetry_opt_in),
         updated_at = now()
   where account_id = v_account_id;
  return app.show_settings(v_account_id);
end
$$;
revoke execute on function api.update_settings(text, text, text, text, boolean, boolean, boolean)
  from public, anon, authenticated;
grant execute on function api.update_settings(text, text, text, text, boolean, boolean, boolean) to service_role;

-- app.require_telemetry: the account of a caller who has opted in --------------------------------------------
create function app.require_telemetry(p_subject text, p_email text)
returns uuid
language plpgsql
set search_path = ''
as $$
declare
  v_account_id uuid := app.open_user(p_subject, p_email);
begin
  if not exists (select from app.settings where account_id = v_account_id and telemetry_opt_in) then
    perform app.refuse('telemetry_disabled');
  end if;
  return v_account_id;
end
$$;
revoke execute on function app.require_telemetry(text, text) from public, anon, authenticated;

-- api.check_telemetry: the first gate, asked before the report is looked at ----------------------------------
create function api.check_telemetry(p_subject text, p_email text)
returns jsonb
language plpgsql
security definer
set search_path = ''
as $$
begin
  perform app.require_telemetry(p_subject, p_email);
  return jsonb_build_object('ok', true);
end
$$;
revoke execute on function api.check_telemetry(text, text) from public, anon, authenticated;
grant execute on function api.check_telemetry(text, text) to service_role;

-- api.report_telemetry: keep a day's aggregate ----------------------------------------------------------------
-- A null count leaves what was reported earlier that day. A null window is today's.
create function api.report_telemetry(
  p_subject text, p_email text, p_window_start timestamptz, p_memory_count bigint, p_device_count bigint,
  p_bytes_stored bigint, p_sync_ops bigint
)
returns jsonb
language plpgsql
security definer
set search_path = ''
as $$
declare
  v_account_id uuid := app.require_telemetry(p_subject, p_email);
  v_row app.telemetry;
begin
  insert into app.telemetry as t (
    account_id, window_start, memory_count, device_count, bytes_stored, sync_ops
  ) values (
    v_account_id, date_trunc('day', coalesce(p_window_start, now()), 'UTC'), coalesce(p_memory_count, 0),
    coalesce(p_device_count, 0), coalesce(p_bytes_stored, 0), coalesce(p_sync_ops, 0)
  )
  on conflict (account_id, window_start) do update
    set memory_count = coalesce(p_memory_count, t.memory_count),
        device_count = coalesce(p_device_count, t.device_count),
        bytes_stored = coalesce(p_bytes_stored, t.bytes_stored),
        sync_ops = coalesce(p_sync_ops, t.sync_ops),
        reported_at = now()
  returning * into v_row;
  return jsonb_build_object(
    'user_id', p_subject,
    'window_start', app.iso(v_row.window_start),
    'memory_count', v_row.memory_count,
    'device_count', v_row.device_count,
    'bytes_stored', v_row.bytes_stored,
    'sync_ops', v_row.sync_ops,
    'reported_at', app.iso(v_row.reported_at));
end
$$;
revoke execute on function api.report_telemetry(
  text, text, timestamptz, bigint, bigint, bigint, bigint
) from public, anon, authenticated;
grant execute on function api.report_telemetry(
  text, text, timestamptz, bigint, bigint, bigint, bigint
) to service_role;
