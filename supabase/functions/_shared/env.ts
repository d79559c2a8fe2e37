/** The configuration: one parse of the environment. Nothing else reads it. */

import { z } from "zod";
import type { AddressRule } from "./domain/client_address.ts";
import { type Purgeable, RETENTION, type RetentionDays, retentionDays } from "./domain/retention.ts";

const flag = z.enum(["true", "false", "1", "0"]).transform((value) => value === "true" || value === "1");
const count = z.string().regex(/^[0-9]{1,15}$/).transform(Number);

const ENVIRONMENT = z.object({
  SUPABASE_URL: z.url().optional(),
  SUPABASE_SECRET_KEYS: z.string().optional(),
  SUPABASE_SERVICE_ROLE_KEY: z.string().optional(),
  AGENT_STATE_DB_URL: z.string().optional(),
  AGENT_STATE_DB_POOL: count.default(1),
  AGENT_STATE_DB_PREPARED: flag.optional(),
  SESSION_JWKS_URL: z.url().optional(),
  SESSION_ISSUER: z.string().optional(),
  SESSION_AUDIENCE: z.string().optional(),
  CORS_ORIGINS: z.string().default("*"),
  PROJECT_TOKEN_QUOTA_BYTES: count.default(268_435_456),
  SNAPSHOT_LEASE_SECONDS: count.default(600),
  SERVER_TIMING: flag.default(false),
  RESEND_API_KEY: z.string().regex(/^[!-~]+$/).optional(),
  RESEND_API_URL: z.url().default("https://api.resend.com"),
  MAIL_FROM: z.string().regex(/^[^\p{Cc}]+@[^\p{Cc}]+$/u).default("Agent State <no-reply@localhost>"),
  CRON_SECRET: z.string().regex(/^[!-~]{16,}$/).optional(),
  WEBHOOK_ALLOW_PRIVATE: flag.default(false),
  POLAR_ACCESS_TOKEN: z.string().regex(/^[!-~]+$/).optional(),
  POLAR_API_URL: z.url().default("https://api.polar.sh"),
  POLAR_VERSION: z.string().regex(/^[0-9A-Za-z.-]{1,32}$/).default("2026-10"),
  POLAR_WEBHOOK_SECRET: z.string().default(""),
  POLAR_PRODUCTS: z.string().default("{}"),
  BILLING_RETURN_ORIGINS: z.string().optional(),
  PUBLIC_URL: z.url({ protocol: /^https?$/ }).optional(),
  SUPABASE_AUTH_ADMIN: flag.default(false),
  RETENTION_DAYS: z.string().default("{}"),
  UNSUBSCRIBE_SECRET: z.string().regex(/^[!-~]{16,}(?: +[!-~]{16,})*$/).optional(),
  API_URL: z.url({ protocol: /^https?$/ }).refine((url) => !/[?#]/.test(url)).optional(),
  CLIENT_ADDRESS_HEADER: z.string().regex(/^[0-9A-Za-z-]{1,64}$/).optional(),
  TRUSTED_PROXIES: count.default(1),
  RATE_LIMIT_PER_SECOND: count.default(5_000),
  APP_URL: z.url({ protocol: /^https?$/ }).refine((url) => !/[?#]/.test(url)).optional(),
});

/** The parser's own message would quote the text, which may be a secret. */
const json = z.string().transform((text, context) => {
  try {
    return JSON.parse(text);
  } catch {
    context.addIssue({ code: "custom", message: "not JSON" });
  }
});

const KEYS = json.pipe(z.object({ default: z.string().optional() }));
/** At most a century. */
const DAYS_MAX = 36_500;
const INSTEAD_DAYS = z.record(z.string(), z.int().max(DAYS_MAX)).superRefine((days, context) => {
  for (const [name, value] of Object.entries(days)) {
    const known = Object.hasOwn(RETENTION, name) ? RETENTION[name as Purgeable] : undefined;
    const message = known === undefined ? "unknown" : `at least ${known.atLeast}`;
    if (known === undefined || value < known.atLeast) {
      context.addIssue({ code: "custom", message, path: [name] });
    }
  }
});
const PRODUCTS = json.pipe(z.record(z.string(), z.enum(["free", "hobby", "pro", "growth", "enterprise"])));

/** How a session JWT is verified. */
export interface SessionSettings {
  jwksUrl: string;
  /** Pinned when set. */
  issuer: string | undefined;
  audience: string | undefined;
}

/** How mail leaves. */
export interface MailSettings {
  /** Key of the provider; undefined where no mail can be sent. */
  apiKey: string | undefined;
  /** Base address of the provider, without a slash at its end. */
  apiUrl: string;
  /** Address of the sender, perhaps with a name: `Name <address>`. */
  from: string;
}

/** How the payment provider is reached, and what it sells. */
export interface PolarSettings {
  /** Undefined where nothing can be sold. */
  accessToken: string | undefined;
  /** Base address of the provider, without a slash at its end. */
  apiUrl: string;
  /** Version of its interface. */
  version: string;
  /** Secrets that its events may be signed with: one, or the old and the new one. */
  webhookSecrets: readonly string[];
  /** From a product's id to its plan. */
  products: Readonly<Record<string, string>>;
}

/** What the operator may set. The README's configuration table explains each. */
export interface Settings {
  /** Base address of the Supabase project, and the key that acts as `service_role` there. */
  supabaseUrl: string | undefined;
  supabaseKey: string | undefined;
  /** When set, functions of the database are called over this connection instead of the REST layer. */
  databaseUrl: string | undefined;
  databasePool: number;
  /** Prepared statements keep their names on the server: off behind a pooler that shares connections. */
  databasePrepared: boolean;
  /** Who issues sessions; undefined where there is no identity provider. */
  sessions: SessionSettings | undefined;
  /** Origins that browsers may call from; `*` is any. */
  corsOrigins: readonly string[];
  /** Bytes that a project token may keep in all. */
  projectQuotaBytes: number;
  /** How long an upload may take before anyone may give it up. Longer than any worker lives. */
  snapshotLeaseSeconds: number;
  /** Whether answers carry a `Server-Timing` header. */
  serverTiming: boolean;
  mail: MailSettings;
  polar: PolarSettings;
  /** Origins that people may be sent to after they have paid; `:*` is any port. */
  billingReturnOrigins: readonly string[];
  /** Address of the dashboard, without a slash at its end: where links in mails lead. */
  appUrl: string | undefined;
  /** Origin that clients reach the service under, without a slash at its end. */
  publicUrl: string | undefined;
  /** Whether identity providers are registered at the project's Supabase Auth. */
  supabaseAuthAdmin: boolean;
  /** Address of this function, without a slash at its end: where mail programs unsubscribe. */
  apiUrl: string | undefined;
  /** What signs the tokens in mails, first; the others are still taken. Empty where nothing can sign. */
  linkSecrets: readonly string[];
  /** Which part of a request says where it comes from. */
  clientAddress: AddressRule;
  /** Requests of one caller that one isolate answers in a second, for long; 0 for any number. */
  requestsPerSecond: number;
  /** What scheduled jobs show to be let in; without it they are off. */
  cronSecret: string | undefined;
  /** Days that each thing is kept which nobody needs any more. */
  retention: RetentionDays;
  /** For development: webhooks may go to http and to addresses that are not public. */
  webhookAllowPrivate: boolean;
}

/** Parses the environment. Throws with the names of the variables that are wrong. */
export function readSettings(environment: Record<string, string | undefined>): Settings {
  const present = Object.fromEntries(Object.entries(environment).filter(([, value]) => value !== ""));
  const parsed = ENVIRONMENT.safeParse(present);
  if (!parsed.success) {
    const wrong = parsed.error.issues.map((issue) => `${issue.path.join(".")}: ${issue.message}`).join("; ");
    throw new Error(`Cannot read the configuration: ${wrong}`);
  }
  const env = parsed.data;
  return {
    supabaseUrl: env.SUPABASE_URL,
    supabaseKey: defaultSecretKey(env.SUPABASE_SECRET_KEYS) ?? env.SUPABASE_SERVICE_ROLE_KEY,
    databaseUrl: env.AGENT_STATE_DB_URL,
    databasePool: env.AGENT_STATE_DB_POOL,
    databasePrepared: env.AGENT_STATE_DB_PREPARED ?? !isPooled(env.AGENT_STATE_DB_URL),
    sessions: readSessionSettings(env),
    corsOrigins: env.CORS_ORIGINS.split(",").map((origin) => origin.trim()).filter(Boolean),
    projectQuotaBytes: env.PROJECT_TOKEN_QUOTA_BYTES,
    snapshotLeaseSeconds: env.SNAPSHOT_LEASE_SECONDS,
    serverTiming: env.SERVER_TIMING,
    mail: readMailSettings(env),
    polar: readPolarSettings(env),
    billingReturnOrigins: readReturnOrigins(env),
    appUrl: env.APP_URL === undefined ? undefined : withoutSlash(env.APP_URL),
    publicUrl: env.PUBLIC_URL === undefined ? undefined : withoutSlash(env.PUBLIC_URL),
    supabaseAuthAdmin: env.SUPABASE_AUTH_ADMIN,
    apiUrl: readApiUrl(env),
    linkSecrets: readLinkSecrets(env),
    clientAddress: {
      header: env.CLIENT_ADDRESS_HEADER ?? (isHosted(env) ? CLOUDFLARE_HEADER : undefined),
      proxies: env.TRUSTED_PROXIES,
    },
    requestsPerSecond: env.RATE_LIMIT_PER_SECOND,
    cronSecret: env.CRON_SECRET,
    webhookAllowPrivate: env.WEBHOOK_ALLOW_PRIVATE,
    retention: readRetention(env),
  };
}

/** Any issuer that is configured; else Supabase Auth, whose issuer and audience are known. */
function readSessionSettings(env: z.output<typeof ENVIRONMENT>): SessionSettings | undefined {
  if (env.SESSION_JWKS_URL !== undefined) {
    requireSafeUrl("SESSION_JWKS_URL", env.SESSION_JWKS_URL);
    return { jwksUrl: env.SESSION_JWKS_URL, issuer: env.SESSION_ISSUER, audience: env.SESSION_AUDIENCE };
  }
  if (env.SUPABASE_URL === undefined) return undefined;
  const issuer = `${withoutSlash(env.SUPABASE_URL)}/auth/v1`;
  return {
    jwksUrl: `${issuer}/.well-known/jwks.json`,
    issuer: env.SESSION_ISSUER ?? issuer,
    audience: env.SESSION_AUDIENCE ?? "authenticated",
  };
}

function readMailSettings(env: z.output<typeof ENVIRONMENT>): MailSettings {
  requireSafeUrl("RESEND_API_URL", env.RESEND_API_URL);
  return { apiKey: env.RESEND_API_KEY, apiUrl: withoutSlash(env.RESEND_API_URL), from: env.MAIL_FROM };
}

function readPolarSettings(env: z.output<typeof ENVIRONMENT>): PolarSettings {
  requireSafeUrl("POLAR_API_URL", env.POLAR_API_URL);
  const products = PRODUCTS.safeParse(env.POLAR_PRODUCTS);
  if (!products.success) {
    throw new Error("Cannot read the configuration: POLAR_PRODUCTS must be JSON from product ids to plans");
  }
  return {
    accessToken: env.POLAR_ACCESS_TOKEN,
    apiUrl: withoutSlash(env.POLAR_API_URL),
    version: env.POLAR_VERSION,
    webhookSecrets: env.POLAR_WEBHOOK_SECRET.split(/\s+/).filter(Boolean),
    products: products.data,
  };
}

function readApiUrl(env: z.output<typeof ENVIRONMENT>): string | undefined {
  if (env.API_URL !== undefined) return withoutSlash(env.API_URL);
  if (env.SUPABASE_URL === undefined) return undefined;
  return `${withoutSlash(env.SUPABASE_URL)}/functions/v1/v2-agent-state`;
}

/** Without one of its own, the key of the project: a token's label keeps the two uses apart. */
function readLinkSecrets(env: z.output<typeof ENVIRONMENT>): string[] {
  if (env.UNSUBSCRIBE_SECRET !== undefined) return env.UNSUBSCRIBE_SECRET.split(/ +/);
  const key = defaultSecretKey(env.SUPABASE_SECRET_KEYS) ?? env.SUPABASE_SERVICE_ROLE_KEY;
  return key === undefined ? [] : [key];
}

/** Every request to a hosted project comes through Cloudflare, which sets this header and lets nobody else do so. */
const CLOUDFLARE_HEADER = "cf-connecting-ip";

function isHosted({ SUPABASE_URL }: z.output<typeof ENVIRONMENT>): boolean {
  return SUPABASE_URL !== undefined && new URL(SUPABASE_URL).hostname.endsWith(".supabase.co");
}

/** A misspelled name would quietly keep the default: it is refused. */
function readRetention(env: z.output<typeof ENVIRONMENT>): RetentionDays {
  const instead = json.pipe(INSTEAD_DAYS).safeParse(env.RETENTION_DAYS);
  if (instead.success) return retentionDays(instead.data);
  const wrong = instead.error.issues.map((issue) => `${issue.path.join(".") || "it"}: ${issue.message}`).join(
    "; ",
  );
  throw new Error(
    `Cannot read the configuration: RETENTION_DAYS must be JSON from names to whole days; ${wrong}`,
  );
}

/** Without a list the dashboard's own origin is the one that people come from and go back to. */
function readReturnOrigins(env: z.output<typeof ENVIRONMENT>): string[] {
  const named = env.BILLING_RETURN_ORIGINS ?? (env.APP_URL === undefined ? "" : new URL(env.APP_URL).origin);
  const origins = named.split(",").map((origin) => origin.trim()).filter(Boolean);
  for (const origin of origins) {
    const sample = origin.replace(/:\*$/, ":1");
    if (!URL.canParse(sample) || new URL(sample).origin !== sample) {
      throw new Error(
        "Cannot read the configuration: BILLING_RETURN_ORIGINS must be origins, such as https://a.example",
      );
    }
    requireSafeUrl("BILLING_RETURN_ORIGINS", sample);
  }
  return origins;
}

/** What is asked for at that address, or sent there, nobody on the way may change or read. */
function requireSafeUrl(name: string, url: string): void {
  const { protocol, hostname } = new URL(url);
  const loopback = ["localhost", "127.0.0.1", "[::1]"].includes(hostname);
  if (protocol !== "https:" && !loopback) {
    throw new Error(`Cannot read the configuration: ${name} must be https, or on this machine`);
  }
}

function withoutSlash(url: string): string {
  return url.replace(/\/+$/, "");
}

/** Supabase hands out its keys as a JSON object from name to key; ours is the one called `default`. */
function defaultSecretKey(keys: string | undefined): string | undefined {
  if (keys === undefined) return undefined;
  const parsed = KEYS.safeParse(keys);
  if (!parsed.success) {
    throw new Error("Cannot read the configuration: SUPABASE_SECRET_KEYS is not what it should be");
  }
  return parsed.data.default;
}

/** Supabase's transaction pooler listens on 6543. */
function isPooled(databaseUrl: string | undefined): boolean {
  return databaseUrl !== undefined && URL.canParse(databaseUrl) && new URL(databaseUrl).port === "6543";
}
