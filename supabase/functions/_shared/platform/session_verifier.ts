/** Verifies session JWTs against the issuer's published keys, with `jose`. Spec section 5, rule 4. */

import { createRemoteJWKSet, customFetch, errors, jwtVerify } from "jose";
import type { SessionSettings } from "../env.ts";
import { readSsoProvider } from "../domain/sso_session.ts";
import { ApiError } from "../errors.ts";
import type { SessionClaims, SessionVerifier } from "./mod.ts";

/** Asymmetric only: a shared secret would let every verifier sign. */
const ALGORITHMS = ["ES256", "RS256", "EdDSA"];
const LEEWAY_SECONDS = 30;
const FETCH_TIMEOUT_MS = 5_000;
/** A key that is not known is asked for at most once in this time, however many tokens name it. */
const COOLDOWN_MS = 30_000;
/** Keys that the issuer has withdrawn stop working after about this time. */
const REFRESH_MS = 600_000;
/** After a fetch that failed nobody waits for another one in this time: one request finds out for all. */
const PAUSE_MS = 1_000;
const SUBJECT_LENGTH_MAX = 512;
const EMAIL_LENGTH_MAX = 320;

/** How long keys are kept and asked for; tests shorten it. */
export interface KeyTimes {
  cooldownMs: number;
  refreshMs: number;
  pauseMs: number;
}

/**
 * Makes the verifier of one isolate. Keys are fetched when they are first needed and refreshed in the background, so
 * an issuer that is away stops nobody whose key is known already.
 */
export function createSessionVerifier(
  settings: SessionSettings | undefined,
  times: KeyTimes = { cooldownMs: COOLDOWN_MS, refreshMs: REFRESH_MS, pauseMs: PAUSE_MS },
): SessionVerifier {
  if (settings === undefined) {
    return {
      verify: () => Promise.reject(new ApiError("service_unavailable", { reason: "no_session_issuer" })),
    };
  }
  let failedAt = -Infinity;
  let refreshedAt = Date.now();
  const keys = createRemoteJWKSet(new URL(settings.jwksUrl), {
    timeoutDuration: FETCH_TIMEOUT_MS,
    cooldownDuration: times.cooldownMs,
    cacheMaxAge: Infinity,
    [customFetch]: async (url, options) => {
      if (Date.now() - failedAt < times.pauseMs) throw new TypeError("The issuer failed a moment ago");
      failedAt = Date.now(); // unless it answers
      const response = await fetch(url, options);
      if (response.ok) failedAt = -Infinity;
      return response;
    },
  });
  const claims = {
    algorithms: ALGORITHMS,
    clockTolerance: LEEWAY_SECONDS,
    requiredClaims: ["exp", "sub"],
    ...(settings.issuer === undefined ? {} : { issuer: settings.issuer }),
    ...(settings.audience === undefined ? {} : { audience: settings.audience }),
  };

  /** In the background while somebody keeps asking; first of all when nobody did for long. */
  async function refresh(): Promise<void> {
    const age = Date.now() - refreshedAt;
    if (age < times.refreshMs) return;
    refreshedAt = Date.now();
    const reloading = keys.reload().catch(() => {});
    if (age > 2 * times.refreshMs) await reloading;
  }

  return {
    async verify(token) {
      try {
        await refresh();
        const { payload } = await jwtVerify(token, keys, claims);
        return readSession(payload);
      } catch (error) {
        if (error instanceof ApiError) throw error;
        throw new ApiError(codeOf(error), {}, { cause: error });
      }
    },
  };
}

function readSession(payload: Record<string, unknown>): SessionClaims {
  const { sub, email, email_verified } = payload;
  if (!isText(sub, SUBJECT_LENGTH_MAX)) throw new ApiError("invalid_session");
  // An address that the issuer does not vouch for is nobody's: it would open invitations and memberships.
  const vouched = email_verified !== false && email_verified !== "false";
  const ssoProvider = readSsoProvider(payload);
  return {
    subject: sub,
    email: vouched && isText(email, EMAIL_LENGTH_MAX) ? email : null,
    ...(ssoProvider === undefined ? {} : { ssoProvider }),
  };
}

function isText(value: unknown, lengthMax: number): value is string {
  return typeof value === "string" && value.length > 0 && value.length <= lengthMax && value.isWellFormed() &&
    !value.includes("\0");
}

/**
 * What the token got wrong is `invalid_session`. What `jose` says when the keys could not be had is its general
 * error, its time-out, or whatever `fetch` threw.
 */
function codeOf(error: unknown): "invalid_session" | "service_unavailable" {
  const noKeys = !(error instanceof errors.JOSEError) || error instanceof errors.JWKSTimeout ||
    error instanceof errors.JWKSInvalid || error.code === "ERR_JOSE_GENERIC";
  return noKeys ? "service_unavailable" : "invalid_session";
}
