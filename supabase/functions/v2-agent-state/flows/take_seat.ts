/** Adds somebody to a team, and a seat with the payment provider first when all are taken. Spec 4.5. */

import { ApiError } from "../../_shared/errors.ts";
import type { Platform } from "../../_shared/platform/mod.ts";
import { deliverMailSoon, type DeliverySettings } from "../../_shared/flows/deliver_mail.ts";

/**
 * Others may take the seat that was just added; then one more is added, but not for ever. Each try that fails is
 * another's success, so this many at once get what they need.
 */
const TRIES_MAX = 20;

/** What a function that takes a seat answers when it could not. See `app.find_seat`. */
interface SeatAnswer {
  seats_needed?: number;
  polar_subscription_id?: string;
  refused?: "seat_limit_reached";
}

/**
 * Calls `add` with the number of seats that the provider was told of (null at first) until it has what it needs, and
 * sends the mails that came of it: also when there was no seat, since the owner is told. Errors:
 * `seat_limit_reached`; what the provider refuses, in which case nothing has changed here.
 */
export async function takeSeat<T extends object>(
  platform: Platform,
  settings: DeliverySettings,
  add: (seats: number | null) => Promise<T | SeatAnswer>,
): Promise<T> {
  try {
    return await addUntilSeated(platform, add);
  } finally {
    deliverMailSoon(platform, settings);
  }
}

async function addUntilSeated<T extends object>(
  platform: Platform,
  add: (seats: number | null) => Promise<T | SeatAnswer>,
): Promise<T> {
  let seats: number | null = null;
  for (let tries = 0; tries < TRIES_MAX; tries++) {
    const answer: T | SeatAnswer = await add(seats);
    if ("refused" in answer && answer.refused !== undefined) {
      const { refused, ...details } = answer;
      throw new ApiError(refused, details);
    }
    if (!("seats_needed" in answer) || answer.seats_needed === undefined) {
      return answer as T;
    }
    seats = answer.seats_needed;
    await platform.seats.change(answer.polar_subscription_id!, seats);
  }
  throw new ApiError("service_unavailable", { reason: "seats_in_demand" });
}
