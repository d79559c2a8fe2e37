-- Addresses that asked for news, and addresses that want no such mail. Spec 4.8.
--
-- An address counts only when somebody who reads its mail has said yes. Nobody learns from an answer whether an address
-- is known: each capture writes, and is answered, in the same way. Addresses are compared by the SHA-256 of their lower
-- case, which the service makes, so that wanting no mail can be remembered for ever without keeping the address.

create table app.marketing_contacts (
  -- What the confirmation's token is made for: a capture after the first one has lapsed is another contact.
  id uuid primary key default gen_random_uuid(),
  address_hash bytea not null unique check (octet_length(address_hash) = 32),
  email text not null check (email <> ''),
  source text,
  created_at timestamptz not null default now(),
  confirmed_at timestamptz
);
create index marketing_contacts_unconfirmed on app.marketing_contacts (created_at) where confirmed_at is null;

-- Who wants no mail but what their account needs.
create table app.mail_refusals (
  address_hash bytea primary key check (octet_length(address_hash) = 32),
  created_at timestamptz not null default now()
);

-- A confirmation that waits is found by its contact.
create index mail_outbox_waiting on app.mail_outbox (subject_id) where sent_at is null and given_up_at is null;

alter table app.marketing_contacts enable row level security;
alter table app.mail_refusals enable row level security;

-- api.capture_contact: somebody, perhaps not its owner, gives an address -------------------------------------
-- Owes it one mail that asks, unless it has confirmed already or one is waiting.
create function api.capture_contact(p_email text, p_address_hash bytea, p_source text)
returns jsonb
language plpgsql
security definer
set search_path = ''
set lock_timeout = '5s'
as $$
declare
  v_contact app.marketing_contacts;
begin
  insert into app.marketing_contacts as c (email, address_hash, source)
  values (p_email, p_address_hash, p_source)
  on conflict (address_hash) do update set source = coalesce(c.source, excluded.source)
  returning c.* into v_contact;
  if v_contact.confirmed_at is null and not exists (
    select from app.mail_outbox
     where subject_id = v_contact.id and sent_at is null and given_up_at is null
  ) then
    perform app.queue_mail('marketing_confirmation', v_contact.email, v_contact.id, '{}');
  end if;
  return jsonb_build_object('status', 'confirmation_sent');
end
$$;
revoke execute on function api.capture_contact(text, bytea, text) from public, anon, authenticated;
grant execute on function api.capture_contact(text, bytea, text) to service_role;

-- api.confirm_contact: its owner says yes ---------------------------------------------------------------------
-- Which is newer than any no that they said before. Again answers the same.
create function api.confirm_contact(p_contact_id uuid)
returns jsonb
language plpgsql
security definer
set search_path = ''
set lock_timeout = '5s'
as $$
declare
  v_address_hash bytea;
begin
  update app.marketing_contacts set confirmed_at = now() where id = p_contact_id and confirmed_at is null
  returning address_hash into v_address_hash;
  if found then
    delete from app.mail_refusals where address_hash = v_address_hash;
  elsif not exists (select from app.marketing_contacts where id = p_contact_id) then
    perform app.refuse('confirmation_not_found');
  end if;
  return jsonb_build_object('status', 'subscribed');
end
$$;
revoke execute on function api.confirm_contact(uuid) from public, anon, authenticated;
grant execute on function api.confirm_contact(uuid) to service_role;

-- api.refuse_mail: the owner of an address wants no more -------------------------------------------------------
-- The address itself goes; that it refused stays.
create function api.refuse_mail(p_address_hash bytea)
returns jsonb
language plpgsql
security definer
set search_path = ''
set lock_timeout = '5s'
as $$
begin
  insert into app.mail_refusals (address_hash) values (p_address_hash) on conflict do nothing;
  delete from app.marketing_contacts where address_hash = p_address_hash;
  return jsonb_build_object('status', 'unsubscribed');
end
$$;
revoke execute on function api.refuse_mail(bytea) from public, anon, authenticated;
grant execute on function api.refuse_mail(bytea) to service_role;

-- api.wants_mail: asked before each mail that may be refused ---------------------------------------------------
create function api.wants_mail(p_address_hash bytea)
returns jsonb
language sql
stable
security definer
set search_path = ''
as $$
  select jsonb_build_object('wants', not exists (
    select from app.mail_refusals where address_hash = p_address_hash))
$$;
revoke execute on function api.wants_mail(bytea) from public, anon, authenticated;
grant execute on function api.wants_mail(bytea) to service_role;
