/** Paying: checkouts, the payment provider's portal, seats. Spec 4.6. */

import { z } from "zod";
import type { AppContext } from "../../_shared/context.ts";
import { ApiError } from "../../_shared/errors.ts";
import { parseBody } from "../../_shared/middleware/parse.ts";
import { text } from "../../_shared/middleware/shapes.ts";
import { PRODUCT_ID_LENGTH_MAX, SEATS_MAX } from "../domain/limits.ts";
import { isReturnUrl } from "../domain/return_url.ts";
import { changeSeats } from "../flows/change_seats.ts";

/** Bodies of the three. Where people may be sent to is the operator's choice, so it is checked after the shape. */
export const CHECKOUT = z.object({ productId: text(PRODUCT_ID_LENGTH_MAX), successUrl: z.string() });
export const PORTAL = z.object({ returnUrl: z.string() });
export const SEATS = z.object({ seats: z.int().min(1).max(SEATS_MAX) });

/** POST /billing/create-checkout: 200 `{url}`. Errors: those of the payment provider. */
export async function createCheckout(c: AppContext): Promise<Response> {
  const { productId, successUrl } = await parseBody(c, CHECKOUT);
  requireReturnUrl(c, "successUrl", successUrl);
  const url = await c.var.platform.payments.createCheckout({ ...c.var.session, productId, successUrl });
  return c.json({ url });
}

/** POST /billing/customer-portal: 200 `{url}`. Errors: those of the payment provider. */
export async function openCustomerPortal(c: AppContext): Promise<Response> {
  const { returnUrl } = await parseBody(c, PORTAL);
  requireReturnUrl(c, "returnUrl", returnUrl);
  const { subject } = c.var.session;
  return c.json({ url: await c.var.platform.payments.createPortalSession({ subject, returnUrl }) });
}

/**
 * POST /billing/update-seats: 200 `{success: true}`. Errors, in order: `no_polar_subscription`,
 * `plan_does_not_support_seats`, `seats_in_use`, those of the payment provider.
 */
export async function updateSeats(c: AppContext): Promise<Response> {
  const { seats } = await parseBody(c, SEATS);
  await changeSeats(c.var.platform, c.var.session, seats);
  return c.json({ success: true });
}

function requireReturnUrl(c: AppContext, field: "successUrl" | "returnUrl", url: string): void {
  if (!isReturnUrl(url, c.var.settings.billingReturnOrigins)) throw new ApiError(`invalid_field:${field}`);
}
