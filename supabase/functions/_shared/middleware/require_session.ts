/** Lets in people who have signed in. Spec section 5, rules 3 and 4. */

import { createMiddleware } from "hono/factory";
import type { AppContext, AppEnv } from "../context.ts";
import { domainOfAddress } from "../domain/sso_session.ts";
import { ApiError } from "../errors.ts";
import type { Database, Session, SessionClaims } from "../platform/mod.ts";
import { readBearerToken } from "./bearer.ts";
import { timed } from "./timing.ts";

const API_KEY = /^sov_(live|proj)_/;

/** Sets `session`. An API key here is `session_jwt_required`, whether or not it is a good one. */
export const requireSession = createMiddleware<AppEnv>(async function requireSession(c, next) {
  const token = readBearerToken(c);
  if (API_KEY.test(token)) throw new ApiError("session_jwt_required");
  const { db, sessions } = c.var.platform;
  c.set("session", await timed(c, "session", async () => await vouch(db, await sessions.verify(token))));
  await next();
});

/** Sets `session` when there is a token, and lets everybody else in without. A bad token is still refused. */
export const acceptSession = createMiddleware<AppEnv>(async function acceptSession(c, next) {
  if (c.req.header("authorization") === undefined) return await next();
  return await requireSession(c, next);
});

/**
 * The session, without an address that only an identity provider asserts and that is not in a domain of its team: whoever
 * runs a provider can write anybody's address into an assertion. Asks the database for sessions of single sign-on alone.
 */
async function vouch(db: Database, { ssoProvider, ...session }: SessionClaims): Promise<Session> {
  if (ssoProvider === undefined || session.email === null) return session;
  const domain = domainOfAddress(session.email);
  const vouched = ssoProvider !== null && domain !== undefined &&
    await db.call<boolean>("vouches_for", { p_provider_id: ssoProvider, p_domain: domain });
  return vouched ? session : { ...session, email: null };
}

/** The arguments that every function called with a session begins with. */
export function sessionArguments(c: AppContext): { p_subject: string; p_email: string | null } {
  const { subject, email } = c.var.session;
  return { p_subject: subject, p_email: email };
}
