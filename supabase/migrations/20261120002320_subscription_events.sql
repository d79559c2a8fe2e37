-- Webhooks hear of a subscription whenever its row changes, whoever changed it: an event of the provider, seats that
-- were set, a seat that was added for a guest.

create function app.tell_subscription()
returns trigger
language plpgsql
set search_path = ''
as $$
begin
  perform app.emit_event(new.account_id, 'subscription.updated', jsonb_build_object(
    'plan', new.plan, 'status', new.status, 'seat_count', new.seat_count));
  return null;
end
$$;
revoke execute on function app.tell_subscription() from public, anon, authenticated;

create trigger subscriptions_are_told after insert on app.subscriptions
  for each row execute function app.tell_subscription();
create trigger subscription_changes_are_told after update on app.subscriptions
  for each row
  when ((new.plan, new.status, new.seat_count, new.current_period_end)
    is distinct from (old.plan, old.status, old.seat_count, old.current_period_end))
  execute function app.tell_subscription();
