/** Addresses that ask for news, and those that want none. Nobody is signed in here. Spec 4.8. */

import { z } from "zod";
import type { AppContext } from "../../_shared/context.ts";
import { encodeHex } from "../../_shared/domain/bytes.ts";
import { readToken } from "../../_shared/domain/signed_token.ts";
import { ApiError } from "../../_shared/errors.ts";
import { limitTries } from "../../_shared/middleware/limit_tries.ts";
import { parse, parseBody } from "../../_shared/middleware/parse.ts";
import { email, text } from "../../_shared/middleware/shapes.ts";
import { LABEL_LENGTH_MAX } from "../domain/limits.ts";
import { addressHash } from "../../_shared/domain/mail.ts";
import { RATE_LIMITS } from "../domain/rate_limits.ts";
import { deliverMailSoon } from "../../_shared/flows/deliver_mail.ts";

/** What the routes below take. */
export const CAPTURE = z.object({ email, source: text(LABEL_LENGTH_MAX).nullish() });
export const TOKEN = z.object({ token: text(LABEL_LENGTH_MAX) });
export const REFUSAL = z.object({ token: text(LABEL_LENGTH_MAX).optional() });
const FORM = /^(?:application\/x-www-form-urlencoded|multipart\/form-data)\b/i;

type Json = Record<string, unknown>;

/**
 * POST /marketing/capture `{email, source?}`: 202 `{status: "confirmation_sent"}`, whether the address is known or not.
 * It counts once its owner has confirmed. Errors: `rate_limited`.
 */
export async function captureContact(c: AppContext): Promise<Response> {
  const body = await parseBody(c, CAPTURE);
  const hash = addressHash(body.email);
  await limitTries(c, RATE_LIMITS.capture_by_network);
  await limitTries(c, RATE_LIMITS.capture_by_address, encodeHex(hash));
  const answer = await c.var.platform.db.call<Json>("capture_contact", {
    p_email: body.email,
    p_address_hash: hash,
    p_source: body.source ?? null,
  });
  deliverMailSoon(c.var.platform, c.var.settings);
  return c.json(answer, 202);
}

/** POST /marketing/confirm `{token}`: 200 `{status: "subscribed"}`. Errors: `confirmation_not_found`. */
export async function confirmContact(c: AppContext): Promise<Response> {
  const { token } = await parseBody(c, TOKEN);
  const subject = readToken("confirm", token, c.var.settings.linkSecrets);
  if (subject === undefined) throw new ApiError("confirmation_not_found");
  const args = { p_contact_id: new TextDecoder().decode(subject) };
  return c.json(await c.var.platform.db.call<Json>("confirm_contact", args));
}

/**
 * POST /marketing/unsubscribe: 200 `{status: "unsubscribed"}`, however often. The token comes as `?token=`, as mail
 * programs send it (RFC 8058), or in a JSON body or form. Errors: `invalid_field:token`.
 */
export async function unsubscribe(c: AppContext): Promise<Response> {
  const token = (await parse(c, REFUSAL, c.req.query())).token ?? await readBodysToken(c);
  const hash = readToken("unsubscribe", token, c.var.settings.linkSecrets);
  if (hash === undefined) throw new ApiError("invalid_field:token");
  return c.json(await c.var.platform.db.call<Json>("refuse_mail", { p_address_hash: hash }));
}

/** A form that is none has no fields. */
async function readBodysToken(c: AppContext): Promise<string> {
  if (!FORM.test(c.req.header("content-type") ?? "")) return (await parseBody(c, TOKEN)).token;
  const form = await c.req.formData().then((data) => Object.fromEntries(data), () => ({}));
  return (await parse(c, TOKEN, form)).token;
}
