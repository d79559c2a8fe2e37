/** Payments through Polar's HTTP interface, with `fetch`: checkouts, the customer's portal, seats. Spec 4.6. */

import { z } from "zod";
import { ApiError } from "../errors.ts";
import type { PolarSettings } from "../env.ts";
import type { LogRecord, PaymentProvider, SeatProvider } from "./mod.ts";
import { openEventVerifier } from "./polar_events.ts";

const TIMEOUT_MS = 5_000;

/** Refusals that say nothing about the request: our token is not in order, or the provider is busy. */
const NOT_ABOUT_THE_REQUEST = [401, 408, 425, 429];

const link = z.url({ protocol: /^https?$/ });
const CHECKOUT = z.object({ url: link });
const PORTAL = z.object({ customer_portal_url: link });
const SUBSCRIPTION = z.object({ id: z.string() });

/**
 * Opens the provider. Errors of every call: `billing_not_configured` without a token;
 * `payment_provider_unavailable` when it is away, busy, slower than 5 seconds, or something else answers in its
 * place; `payment_provider_refused` when it will not do what was asked. None has a word of its answer in it.
 */
export function openPolar(
  settings: PolarSettings,
  log: (record: LogRecord) => void,
  timeoutMs = TIMEOUT_MS,
): { payments: PaymentProvider; seats: SeatProvider } {
  async function send(method: string, path: string, body: object): Promise<{ status: number; text: string }> {
    try {
      const response = await fetch(`${settings.apiUrl}${path}`, {
        method,
        // The token is for this address alone.
        redirect: "manual",
        signal: AbortSignal.timeout(timeoutMs),
        headers: {
          "authorization": `Bearer ${settings.accessToken}`,
          "accept": "application/json",
          "content-type": "application/json",
          "polar-version": settings.version,
        },
        body: JSON.stringify(body),
      });
      return { status: response.status, text: await response.text() };
    } catch {
      // What was thrown is not passed on: its message is not ours to vouch for.
      return { status: 0, text: "" };
    }
  }

  async function call<T extends z.ZodType>(
    method: string,
    path: string,
    body: object,
    answer: T,
  ): Promise<z.output<T>> {
    if (settings.accessToken === undefined) throw new ApiError("billing_not_configured");
    const { status, text } = await send(method, path, body);
    const parsed = status >= 200 && status < 300 ? answer.safeParse(parseJson(text)) : undefined;
    if (parsed?.success) return parsed.data;
    log({ level: "warn", event: "payment_provider_failed", status });
    const refused = status >= 400 && status < 500 && !NOT_ABOUT_THE_REQUEST.includes(status);
    throw new ApiError(refused ? "payment_provider_refused" : "payment_provider_unavailable");
  }

  return {
    payments: {
      async createCheckout({ subject, email, productId, successUrl }) {
        const { url } = await call("POST", "/v1/checkouts/", {
          products: [productId],
          external_customer_id: subject,
          ...(email === null ? {} : { customer_email: email }),
          success_url: successUrl,
          metadata: { source: "v2-agent-state" },
        }, CHECKOUT);
        return url;
      },
      async createPortalSession({ subject, returnUrl }) {
        const body = { external_customer_id: subject, return_url: returnUrl };
        return (await call("POST", "/v1/customer-sessions/", body, PORTAL)).customer_portal_url;
      },
      verifyEvent: openEventVerifier(settings.webhookSecrets),
    },
    seats: {
      async change(subscriptionId, seats) {
        const path = `/v1/subscriptions/${encodeURIComponent(subscriptionId)}`;
        await call("PATCH", path, { seats, proration_behavior: "invoice" }, SUBSCRIPTION);
      },
    },
  };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
