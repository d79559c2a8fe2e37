/**
 * What stands in front of every route of both functions: floods are shed in memory, and credentials that fail are
 * counted in the database, for each network. The README says how many of what.
 */

import { createMiddleware } from "hono/factory";
import type { AppContext, AppEnv } from "../context.ts";
import { sha256 } from "../domain/bytes.ts";
import { readNetwork } from "../domain/client_address.ts";
import {
  chargeTokens,
  createBuckets,
  createMarks,
  isMarked,
  mark,
  takeTokens,
} from "../domain/token_buckets.ts";
import type { Settings } from "../env.ts";
import { ApiError } from "../errors.ts";
import { answerError } from "./boundary.ts";

/** Requests at once that a caller who was quiet may send, in seconds' worth of what they may send all the time. */
const BURST_SECONDS = 4;
/** What a refusal costs a network more than an answer: whoever has no business here is shed first. */
const REFUSAL_COST = 9;
/** For how long a key or session that worked goes on when its network is over its limit: its neighbours are. */
const GOOD_MS = 3_600_000;
/** Anybody can make these up, so that one worked says nothing. */
const SELF_ASSERTING = "Bearer sov_proj_";
/** Credentials of one network that may fail in a window. Guessing 256 bits is hopeless; this is about floods. */
const FAILURES_MAX = 600;
const FAILURES_WINDOW_SECONDS = 600;
/** Networks remembered as having failed too often. */
const BLOCKED_MAX = 10_000;
/** Nothing was sent, or something of another class: nobody is guessing. */
const NO_GUESS = [
  "missing_or_invalid_bearer_token",
  "missing_or_invalid_api_key",
  "session_jwt_required",
];

/** The operator's own programs: they come straight from this machine, which tells nobody apart. */
const LOOPBACK = /^(?:127\.|0:0:0:0::)/;

/** The caller's network, or undefined where nothing says. See `domain/client_address.ts`. */
export function clientNetwork(c: AppContext): string | undefined {
  // On the way of every request: `c.var` would gather all variables each time, `c.get` looks one up.
  const rule = c.get("settings").clientAddress;
  const { header } = rule;
  return readNetwork(rule, {
    header: header === undefined ? undefined : c.req.header(header),
    forwardedFor: c.req.header("x-forwarded-for"),
    connection: c.env?.remoteAddr?.hostname,
  });
}

/**
 * Sheds floods without asking anybody. By network; by credential where the network says nothing, and for those whose
 * neighbours have used up what their network may send.
 */
export function limitFloods({ requestsPerSecond }: Settings) {
  const seed = crypto.getRandomValues(new Uint32Array(1))[0]!;
  const buckets = createBuckets(requestsPerSecond, requestsPerSecond * BURST_SECONDS, seed);
  const good = createMarks(seed);
  return createMiddleware<AppEnv>(async function limitFloods(c, next) {
    if (requestsPerSecond === 0) return await next();
    const network = outsideNetwork(c);
    const credential = c.req.header("authorization") ?? c.req.header("x-api-key") ?? "";
    let key = network ?? credential;
    let seconds = takeTokens(buckets, key, performance.now());
    if (seconds > 0 && key !== credential && isMarked(good, credential, performance.now(), GOOD_MS)) {
      key = credential;
      seconds = takeTokens(buckets, key, performance.now());
    }
    if (seconds > 0) throw new ApiError("rate_limited", { retry_after_seconds: Math.ceil(seconds) });
    await next();
    const isKnown = credential !== "" && !credential.startsWith(SELF_ASSERTING);
    if (c.res.ok && isKnown) mark(good, credential, performance.now());
    const refused = c.res.status >= 400 && c.res.status < 500;
    if (refused && network !== undefined) {
      chargeTokens(buckets, key, performance.now(), REFUSAL_COST);
    }
  });
}

function outsideNetwork(c: AppContext): string | undefined {
  const network = clientNetwork(c);
  return network === undefined || LOOPBACK.test(network) ? undefined : network;
}

/**
 * Answers 429 instead of 401 to a network whose credentials fail too often. A credential is looked at before anything
 * is counted, so whoever shares the network and has a good one never notices. Counting is done in the background: a
 * refusal waits for nothing, and costs the database nothing more once the network is over its limit.
 */
export function limitFailures() {
  const blockedUntil = new Map<string, number>();

  async function count(c: AppContext, network: string): Promise<void> {
    const answer = await c.var.platform.db.call<{ allowed: boolean; retry_after_seconds: number }>(
      "hit_rate_limit",
      {
        p_bucket: sha256(`failed credentials ${network}`),
        p_limit: FAILURES_MAX,
        p_window_seconds: FAILURES_WINDOW_SECONDS,
      },
    );
    if (answer.allowed) return;
    if (blockedUntil.size >= BLOCKED_MAX) blockedUntil.delete(blockedUntil.keys().next().value!);
    blockedUntil.set(network, performance.now() + answer.retry_after_seconds * 1000);
  }

  return createMiddleware<AppEnv>(async function limitFailures(c, next) {
    await next();
    if (!isFailedCredential(c.error)) return;
    const network = outsideNetwork(c);
    if (network === undefined) return;
    const leftMs = (blockedUntil.get(network) ?? 0) - performance.now();
    if (leftMs > 0) {
      c.error = new ApiError("rate_limited", { retry_after_seconds: Math.ceil(leftMs / 1000) });
      c.res = await answerError(c.error, c);
      c.res.headers.delete("www-authenticate");
    } else {
      blockedUntil.delete(network);
      c.var.platform.background(count(c, network).catch(() => {}));
    }
  });
}

function isFailedCredential(error: Error | undefined): boolean {
  return error instanceof ApiError && error.status === 401 && !NO_GUESS.includes(error.code);
}
