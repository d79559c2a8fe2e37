/** Tells whether an event comes from Polar: the signatures of Standard Webhooks. Spec 5 and 6. */

import { Webhook } from "standardwebhooks";
import { ApiError } from "../errors.ts";
import type { PaymentProvider } from "./mod.ts";

const ID_LENGTH_MAX = 256;

/**
 * Opens the verifier. Any of the secrets will do, each in both ways in which Polar makes a key of it: the whole
 * text, and what its base64 stands for. Errors: `billing_not_configured` without a secret;
 * `invalid_webhook_signature`, also when the event is more than five minutes old or ahead.
 */
export function openEventVerifier(secrets: readonly string[]): PaymentProvider["verifyEvent"] {
  const webhooks = secrets.flatMap(keysOf).map((key) => new Webhook(key, { format: "raw" }));
  return function verifyEvent({ id, timestamp, signature }, body) {
    if (webhooks.length === 0) throw new ApiError("billing_not_configured");
    const text = decode(body);
    if (
      text === undefined || !id || id.length > ID_LENGTH_MAX || !signature ||
      !/^[0-9]{1,12}$/.test(timestamp ?? "")
    ) {
      throw new ApiError("invalid_webhook_signature");
    }
    const headers = { "webhook-id": id, "webhook-timestamp": timestamp!, "webhook-signature": signature };
    if (!webhooks.some((webhook) => isSigned(webhook, text, headers))) {
      throw new ApiError("invalid_webhook_signature");
    }
    return id;
  };
}

function isSigned(webhook: Webhook, text: string, headers: Record<string, string>): boolean {
  try {
    webhook.verify(text, headers, { jsonParse: false });
    return true;
  } catch {
    return false;
  }
}

/** The bytes of a secret's text and, where what follows its prefix is base64, the bytes that this stands for. */
function keysOf(secret: string): Uint8Array[] {
  const encoded = secret.replace(/^(?:whsec_|polar_whs_)/, "");
  const whole = new TextEncoder().encode(secret);
  try {
    const decoded = Uint8Array.from(atob(encoded), (character) => character.charCodeAt(0));
    return decoded.length === 0 ? [whole] : [whole, decoded];
  } catch {
    return [whole];
  }
}

/** What was signed is text in UTF-8; a byte order mark is part of it. */
function decode(body: ArrayBuffer): string | undefined {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(body);
  } catch {
    return undefined;
  }
}
