/** Changes how many seats are paid for: with the payment provider first, then here. Spec 4.6. */

import type { Platform, Session } from "../../_shared/platform/mod.ts";

/**
 * Sets the number of seats of the caller's subscription. Errors: `no_polar_subscription`,
 * `plan_does_not_support_seats`, `seats_in_use`; what the provider answers, in which case nothing has changed here.
 */
export async function changeSeats(platform: Platform, session: Session, seats: number): Promise<void> {
  const { polar_subscription_id } = await platform.db.call<{ polar_subscription_id: string }>("check_seats", {
    p_subject: session.subject,
    p_email: session.email,
    p_seats: seats,
  });
  await platform.seats.change(polar_subscription_id, seats);
  await platform.db.call("set_seat_count", {
    p_polar_subscription_id: polar_subscription_id,
    p_seats: seats,
  });
}
