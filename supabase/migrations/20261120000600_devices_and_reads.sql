-- What the server may know about use without reading anything: which devices are linked, how often state was
-- recalled. Kept beside the logs, not in their rows, so that counting a read never meets a write. Spec 2.6.

-- A device is the SHA-256 of the `x-device-id` header, whatever the client puts there.
create table app.devices (
  owner_id uuid not null references app.owners (id) on delete cascade,
  device_hash bytea not null check (octet_length(device_hash) = 32),
  last_seen_at timestamptz not null default now(),
  primary key (owner_id, device_hash)
);

alter table app.devices enable row level security;

-- app.see_device: note that a device was here -----------------------------------------------------------------
-- Written once an hour for a device that stays, and never for more than 1000 devices of one owner: the header
-- is the client's to choose.
create function app.see_device(p_owner_id uuid, p_device_hash bytea)
returns void
language plpgsql
set search_path = ''
as $$
begin
  if p_device_hash is null or exists (
    select from app.devices
     where owner_id = p_owner_id and device_hash = p_device_hash and last_seen_at > now() - interval '1 hour'
  ) then
    return;
  end if;
  if (select count(*) from app.devices where owner_id = p_owner_id) >= 1000 then
    delete from app.devices where owner_id = p_owner_id and last_seen_at < now() - interval '30 days';
    if not found then
      return;
    end if;
  end if;
  insert into app.devices (owner_id, device_hash) values (p_owner_id, p_device_hash)
    on conflict (owner_id, device_hash) do update set last_seen_at = now();
end
$$;
revoke execute on function app.see_device(uuid, bytea) from public, anon, authenticated;

-- api.record_reads: count reads that were answered a moment ago ----------------------------------------------
-- The arrays run in parallel, one place for each credential and device (null: none was named). A credential that
-- has stopped being good meanwhile is passed over. It gives up rather than wait for a lock: the caller may have one
-- connection only, and the next read needs it.
create function api.record_reads(
  p_credential_kinds text[], p_credential_hashes bytea[], p_device_hashes bytea[], p_recalls int[]
)
returns jsonb
language plpgsql
security definer
set search_path = ''
set lock_timeout = '100ms'
as $$
declare
  v_read record;
  v_principal app.principal;
begin
  for v_read in
    select r.*, f.principal, f.refusal
      from unnest(p_credential_kinds, p_credential_hashes, p_device_hashes, p_recalls)
             as r (kind, hash, device, recalls),
           app.find_principal(r.kind, r.hash) f
     order by r.kind, r.hash, r.device -- one order for everybody, so that two flushes cannot deadlock
  loop
    v_principal := v_read.principal;
    continue when v_read.refusal is not null or v_principal.owner_id is null;
    perform app.touch_key(v_principal.key_id);
    perform app.see_device(v_principal.owner_id, v_read.device);
    if v_read.recalls > 0 then
      perform app.count_usage(v_principal.owner_id, v_principal.account_id, 0, 0, v_read.recalls, 0);
    end if;
  end loop;
  return jsonb_build_object('ok', true);
end
$$;
revoke execute on function api.record_reads(text[], bytea[], bytea[], int[]) from public, anon, authenticated;
grant execute on function api.record_reads(text[], bytea[], bytea[], int[]) to service_role;
