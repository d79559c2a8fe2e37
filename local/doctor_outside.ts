/** Looks at a deployment from outside, as a client sees it. It only reads, and runs at most what the schedule runs. */

import { importJWK, type JWK } from "jose";
import { ask, describe, type Seen } from "./doctor_http.ts";
import { fail, type Finding, ok, PLACEHOLDERS, warn } from "./doctor_report.ts";
import type { ScheduledJob } from "./schedule.ts";

/** Where to look. */
export interface Outside {
  /** Origin of the deployment; the functions are below `/functions/v1`. */
  origin: string;
  /** Where its sessions' keys are published, when not where Supabase Auth has them. */
  jwksUrl?: string | undefined;
}

const MAIN = "v2-agent-state";
const DEPLOY = "npx supabase functions deploy v2-agent-state vault --use-api --remote=<ref> --yes";
const SKEW_SECONDS_MAX = 30;
/** One token for all visits, so that they leave at most one empty trace. */
const VISITOR = "sov_proj_d0c70000-0000-4000-8000-000000000000";
const WRONG_SECRET = "the-doctor-tries-a-wrong-secret";

/** Looks at everything that can be seen without credentials. */
export async function lookFromOutside(target: Outside): Promise<Finding[]> {
  const reached = await checkFunction(target, MAIN);
  const findings = [...checkTransport(target), reached];
  // Nothing else can be told about what cannot be reached.
  if (reached.state === "fail") return findings;
  return [
    ...findings,
    await checkFunction(target, "vault"),
    ...await Promise.all([
      checkPrefixes(target),
      checkCredential(target),
      checkCors(target),
      checkClock(target),
      checkKeys(target),
      checkSessions(target),
      checkCronSecret(target),
      checkBilling(target),
      checkBucket(target),
    ]),
  ];
}

/** Looks which jobs of the schedule have their route in this deployment. */
export async function checkRoutes(
  { origin }: Outside,
  jobs: readonly ScheduledJob[],
): Promise<{ finding: Finding; served: ScheduledJob[] }> {
  const served: ScheduledJob[] = [];
  for (const job of jobs) {
    const seen = await ask(`${origin}/functions/v1/${job.function}${job.path}`, { method: "POST" });
    if (seen.status !== 404) served.push(job);
  }
  const missing = jobs.filter((job) => !served.includes(job)).map((job) => `${job.function}${job.path}`);
  const finding = missing.length === 0
    ? ok("routes of jobs", `all ${jobs.length} jobs of the schedule have their route`)
    : fail(
      "routes of jobs",
      `there is no ${missing.join(", ")}`,
      `Are the functions older than the database? ${DEPLOY}`,
    );
  return { finding, served };
}

/** Whether the secret that the schedule sends is the function's. It runs the webhook dispatcher once. */
export async function checkScheduleSecret({ origin }: Outside, secret: string): Promise<Finding> {
  const seen = await dispatch(origin, secret);
  return seen.status === 200
    ? ok("schedule's secret", "the Vault's secret is the functions' CRON_SECRET")
    : fail(
      "schedule's secret",
      `the functions refuse the Vault's secret: ${describe(seen)}`,
      "select app.configure_schedule('<origin>/functions/v1', '<the CRON_SECRET of the functions>')",
    );
}

function url({ origin }: Outside, path: string): string {
  return `${origin}/functions/v1/${MAIN}${path}`;
}

function dispatch(origin: string, secret: string): Promise<Seen> {
  return ask(`${origin}/functions/v1/${MAIN}/webhooks/dispatch`, {
    method: "POST",
    headers: { authorization: `Bearer ${secret}` },
  });
}

function checkTransport({ origin }: Outside): Finding[] {
  const { protocol, hostname } = new URL(origin);
  if (protocol === "https:") return [ok("transport", "https")];
  return [
    ["127.0.0.1", "localhost", "[::1]"].includes(hostname) ? ok("transport", "http, on this machine") : fail(
      "transport",
      `http to ${hostname}: keys travel in the clear`,
      "Put a TLS proxy in front: docs/deploy.md",
    ),
  ];
}

async function checkFunction(target: Outside, name: string): Promise<Finding> {
  const seen = await ask(`${target.origin}/functions/v1/${name}/health`);
  const check = `function ${name === MAIN ? "state" : name}`;
  if (seen.status === 200 && seen.body?.status === "ok") return ok(check, `answers, ${seen.ms} ms`);
  if (seen.status === 0) {
    return fail(
      check,
      `cannot be reached: ${seen.reason}`,
      "Is the address right, the project not paused, the service running?",
    );
  }
  if (isGateway(seen)) {
    return fail(
      check,
      `the gateway wants a JWT of its own: ${describe(seen)}`,
      `Deploy with verify_jwt = false, as config.toml has it: ${DEPLOY}`,
    );
  }
  if (seen.body?.error === "storage_unavailable") {
    return fail(
      check,
      "the blob store does not answer",
      "Does the bucket agent-state exist? supabase db push makes it; self-hosted: is DATA_DIR writable?",
    );
  }
  if (seen.body?.error === "service_unavailable") {
    return fail(
      check,
      "the database does not answer, or not to this function",
      "Push the migrations; is `api` among the exposed schemas, or AGENT_STATE_DB_URL right?",
    );
  }
  if (seen.status === 404) return fail(check, `is not deployed there: ${describe(seen)}`, DEPLOY);
  return fail(
    check,
    `does not work: ${describe(seen)}`,
    "Its log names what is wrong; a malformed secret keeps it from starting.",
  );
}

/** Supabase's gateway answers 401 with a body of its own. */
function isGateway({ status, body, headers }: Seen): boolean {
  return status === 401 && (typeof body?.error !== "string" || headers.get("x-request-id") === null);
}

async function checkPrefixes(target: Outside): Promise<Finding> {
  const [versioned, unknown] = await Promise.all([
    ask(url(target, "/v2/health")),
    ask(url(target, "/no-such-route")),
  ]);
  const well = versioned.status === 200 && unknown.status === 404 &&
    unknown.body?.error === "route_not_found";
  return well ? ok("paths", "/v2 is optional, unknown paths are route_not_found") : fail(
    "paths",
    `/v2/health: ${describe(versioned)}; an unknown path: ${describe(unknown)}`,
    "Something in front rewrites paths: pass them on as they come.",
  );
}

/** An API key has to get through the gateway, the function and the database. */
async function checkCredential(target: Outside): Promise<Finding> {
  const seen = await ask(url(target, "/head"), { headers: { authorization: `Bearer ${VISITOR}` } });
  // Its token is no secret: somebody may have used it.
  if (seen.status === 200 || (seen.status === 404 && seen.body?.error === "no_replication_entries")) {
    return ok("API keys", "reach the database");
  }
  if (isGateway(seen)) {
    return fail(
      "API keys",
      `the gateway refuses what is no JWT: ${describe(seen)}`,
      `Deploy with verify_jwt = false, as config.toml has it: ${DEPLOY}`,
    );
  }
  if (seen.body?.error === "missing_or_invalid_bearer_token") {
    return fail(
      "API keys",
      "the Authorization header does not arrive",
      "A proxy in front removes it: let it pass.",
    );
  }
  return fail(
    "API keys",
    `an unused token got ${describe(seen)} instead of 404 no_replication_entries`,
    "Are the migrations and the functions of one version? See the log under its request_id.",
  );
}

async function checkCors(target: Outside): Promise<Finding> {
  const origin = "https://doctor.example";
  const preflight = await ask(url(target, "/head"), {
    method: "OPTIONS",
    headers: {
      origin,
      "access-control-request-method": "GET",
      "access-control-request-headers": "authorization",
    },
  });
  const allowed = preflight.headers.get("access-control-allow-headers") ?? "";
  if (!allowed.toLowerCase().includes("authorization")) {
    return fail(
      "CORS",
      `a preflight is not answered by the function: ${describe(preflight)}`,
      "Let OPTIONS requests pass through the proxy, and their answers as they are.",
    );
  }
  return preflight.headers.get("access-control-allow-origin") === "*"
    ? ok("CORS", "any origin, without cookies")
    : ok("CORS", "only the origins of CORS_ORIGINS");
}

async function checkClock(target: Outside): Promise<Finding> {
  const { skew } = await ask(url(target, "/health"));
  if (skew === undefined) {
    return warn("clock", "the answer has no Date header", "Let it pass through the proxy.");
  }
  return Math.abs(skew) <= SKEW_SECONDS_MAX
    ? ok("clock", `within ${Math.abs(skew)} s of this machine's`)
    : fail(
      "clock",
      `differs by ${skew} s from this machine's`,
      "Run NTP on both: sessions and webhook signatures depend on the time.",
    );
}

/** Whether the issuer's keys are there, and of a kind that this service takes. */
async function checkKeys({ origin, jwksUrl }: Outside): Promise<Finding> {
  const address = jwksUrl ?? `${origin}/auth/v1/.well-known/jwks.json`;
  const seen = await ask(address);
  const keys: JWK[] | undefined = seen.body?.keys;
  if (seen.status !== 200 || !Array.isArray(keys)) {
    const mend = jwksUrl === undefined
      ? "If SESSION_JWKS_URL names another issuer, say --jwks; else check Supabase Auth."
      : "Is the address right, and does the issuer answer?";
    return fail("session keys", `${address}: ${describe(seen)}`, mend);
  }
  const usable = await Promise.all(keys.map(isUsable));
  return usable.includes(true)
    ? ok("session keys", `${usable.filter(Boolean).length} of ${keys.length} can verify sessions`)
    : fail(
      "session keys",
      `${address} has no asymmetric key among ${keys.length}`,
      "Dashboard → JWT keys: move to an asymmetric signing key (ES256), and rotate to it.",
    );
}

async function isUsable(key: JWK): Promise<boolean> {
  const algorithm = key.alg ??
    ({ EC: "ES256", RSA: "RS256", OKP: "EdDSA" } as Record<string, string>)[key.kty ?? ""];
  if (algorithm === undefined || !["ES256", "RS256", "EdDSA"].includes(algorithm)) return false;
  return await importJWK(key, algorithm).then(() => true, () => false);
}

/** A token of a key that nobody has: refused when the service knows its issuer's keys, 503 when it cannot get them. */
async function checkSessions(target: Outside): Promise<Finding> {
  const encode = (value: unknown) => btoa(JSON.stringify(value)).replace(/=+$/, "");
  const header = encode({ alg: "ES256", typ: "JWT", kid: `doctor-${crypto.randomUUID()}` });
  const token = `${header}.${encode({ sub: "doctor", exp: 4e9 })}.${"A".repeat(86)}`;
  const seen = await ask(url(target, "/settings"), { headers: { authorization: `Bearer ${token}` } });
  if (seen.status === 401 && seen.body?.error === "invalid_session") {
    return ok("sessions", "the service has its issuer's keys, and refuses a forged session");
  }
  return seen.status === 503
    ? fail(
      "sessions",
      "the service cannot fetch its issuer's keys",
      "Check SESSION_JWKS_URL, and that the issuer answers from where the function runs.",
    )
    : fail(
      "sessions",
      `a forged session got ${describe(seen)}`,
      "Is an old version deployed? See the log under its request_id.",
    );
}

async function checkCronSecret({ origin }: Outside): Promise<Finding> {
  const set = "Make one (openssl rand -hex 32), set it as CRON_SECRET, and tell the schedule: docs/deploy.md";
  const wrong = await dispatch(origin, WRONG_SECRET);
  if (wrong.body?.error === "cron_not_configured") {
    return fail("CRON_SECRET", "is not set: no job can run", set);
  }
  if (wrong.status === 429) {
    return warn("CRON_SECRET", "wrong ones are refused for now: rate_limited", "Look again later.");
  }
  if (wrong.body?.error !== "invalid_cron_secret") {
    return fail("CRON_SECRET", `a wrong one got ${describe(wrong)}`, "Is an old version deployed?");
  }
  for (const placeholder of PLACEHOLDERS) {
    if ((await dispatch(origin, placeholder)).status === 200) {
      return fail("CRON_SECRET", "is one that manuals print, so anybody may run the jobs", set);
    }
  }
  return ok("CRON_SECRET", "is set, and none that manuals print");
}

async function checkBilling(target: Outside): Promise<Finding> {
  const seen = await ask(url(target, "/billing/webhook"), { method: "POST", body: "{}" });
  return seen.body?.error === "invalid_webhook_signature"
    ? ok("billing", "unsigned events are refused")
    : warn(
      "billing",
      `nothing can be sold: ${describe(seen)}`,
      "Set POLAR_WEBHOOK_SECRET and POLAR_ACCESS_TOKEN, if it should be.",
    );
}

/** Objects are read by whoever knows their name, and by nobody else. */
async function checkBucket({ origin }: Outside): Promise<Finding> {
  const storage = `${origin}/storage/v1/object`;
  const [object, list] = await Promise.all([
    ask(`${storage}/public/agent-state/${crypto.randomUUID()}/none`),
    ask(`${storage}/list/agent-state`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ prefix: "", limit: 1 }),
    }),
  ]);
  if (Array.isArray(list.body)) {
    return fail(
      "bucket",
      "anybody can list its objects",
      "Drop the select policies on storage.objects that let others in.",
    );
  }
  return [400, 404].includes(object.status) && !/bucket not found/i.test(object.text)
    ? ok("bucket", "public by name, and not listed to strangers")
    : fail(
      "bucket",
      `is not public, or not there: ${describe(object)}`,
      "Push the migrations: they make the public bucket agent-state.",
    );
}
