/** The whole service in one process: Postgres, migrations, blobs, sessions and HTTP, started and stopped in order. */

import { join, resolve } from "node:path";
import { rawPath } from "../supabase/functions/_shared/domain/paths.ts";
import { readSettings } from "../supabase/functions/_shared/env.ts";
import { openDirectDatabase } from "../supabase/functions/_shared/platform/database_direct.ts";
import { openResendMailer } from "../supabase/functions/_shared/platform/mailer_resend.ts";
import type { LogRecord, Platform } from "../supabase/functions/_shared/platform/mod.ts";
import { openNameService } from "../supabase/functions/_shared/platform/name_service.ts";
import { openPolar } from "../supabase/functions/_shared/platform/payments_polar.ts";
import { openProviders } from "../supabase/functions/_shared/platform/providers_supabase.ts";
import { openWebhookSender } from "../supabase/functions/_shared/platform/webhook_sender.ts";
import { createSessionVerifier } from "../supabase/functions/_shared/platform/session_verifier.ts";
import { createApp } from "../supabase/functions/v2-agent-state/app.ts";
import { createApp as createVault } from "../supabase/functions/vault/app.ts";
import { openBlobFiles, serveBlob } from "./blob_files.ts";
import { lockDataDir, removeStackFile, writeStackFile } from "./data_dir.ts";
import { openMailFiles } from "./mail_files.ts";
import { migrate } from "./migrate.ts";
import { startPostgres } from "./postgres.ts";
import { print, printSoon } from "./print.ts";
import { startSchedule } from "./schedule.ts";
import { localCronSecret, localPolarSecret, localUnsubscribeSecret } from "./secrets.ts";
import { LOCAL_AUDIENCE, LOCAL_ISSUER, openSessionIssuer, type SessionIssuer } from "./session_issuer.ts";
import { trackWork } from "./work.ts";
import { openVaultClock } from "./vault_clock.ts";

const DRAIN_MS = 10_000;
const POOL_SIZE = 8;

/** How to run the service. */
export interface StackOptions {
  dataDir: string;
  /** 0 picks a free one. */
  port: number;
  hostname?: string;
  /** A Postgres to use instead of the embedded one. */
  databaseUrl?: string;
  /** Origin of the addresses that the service hands out, when clients reach it under another one. */
  publicUrl?: string;
  /** The environment that settings are read from. */
  env?: Record<string, string | undefined>;
  /** Runs the scheduled jobs, as Supabase Cron does on a hosted project. */
  schedule?: boolean;
  /** Receives lines for people. */
  say?: (line: string) => void;
  /** Leaves the log out. */
  quiet?: boolean;
  /** Settings of a throw-away embedded Postgres: nothing is forced to disk. */
  fsync?: boolean;
}

/** The running service. */
export interface Stack {
  /** Origin, without a path. */
  url: string;
  dataDir: string;
  databaseUrl: string;
  sessions: SessionIssuer;
  platform: Platform;
  stop(): Promise<void>;
}

/** The port is someone else's. */
export class PortInUse extends Error {}

/** Starts everything, or nothing: what had started is stopped again when a later part fails. */
export async function startStack(options: StackOptions): Promise<Stack> {
  const parts = new AsyncDisposableStack();
  try {
    const stack = await start(options, parts);
    let stopping: Promise<void> | undefined;
    return { ...stack, stop: () => stopping ??= parts.disposeAsync() };
  } catch (error) {
    await parts.disposeAsync();
    throw error;
  }
}

/** Starts the parts in order; each leaves in `parts` how it stops, and they stop in the opposite order. */
async function start(options: StackOptions, parts: AsyncDisposableStack): Promise<Omit<Stack, "stop">> {
  const { hostname = "127.0.0.1", port, env = {}, say = () => {} } = options;
  const dataDir = resolve(options.dataDir);
  const log = options.quiet ? () => {} : writeLog;

  const lock = await lockDataDir(dataDir);
  parts.defer(() => lock.release());
  await removeStackFile(dataDir);
  requireFreePort(hostname, port);
  const reachable = !isLoopback(hostname) || options.publicUrl !== undefined;
  const vaultNow = await openVaultClock(dataDir, env.VAULT_CLOCK_SPEED, reachable);

  const databaseUrl = options.databaseUrl ?? await startDatabase(options, dataDir, say, parts);
  const applied = await migrate(databaseUrl);
  if (applied.length > 0) say(`Applied ${applied.length} migrations.`);

  const database = openDirectDatabase({
    url: databaseUrl,
    poolSize: POOL_SIZE,
    prepared: true,
    role: "service_role",
    log,
  });
  parts.defer(() => database.close());
  const work = trackWork(log);
  parts.defer(() => work.drain());

  const sessions = await openSessionIssuer(dataDir);
  const blobRoot = join(dataDir, "blobs");
  let url = "";
  const blobs = await openBlobFiles(blobRoot, () => options.publicUrl ?? url);
  const { promise: handler, resolve: ready } = Promise.withResolvers<
    (request: Request, info: Deno.ServeHandlerInfo<Deno.NetAddr>) => Promise<Response>
  >();
  url = serve(hostname, port, async (request, info) => (await handler)(request, info), parts);

  const issuer = env.SESSION_ISSUER || LOCAL_ISSUER;
  const audience = env.SESSION_AUDIENCE || LOCAL_AUDIENCE;
  const cronSecret = env.CRON_SECRET || await localCronSecret(dataDir);
  const settings = readSettings({
    SESSION_JWKS_URL: `${url}/auth/v1/.well-known/jwks.json`,
    // A receiver beside a stack that is for this machine alone; one that others reach keeps to public addresses.
    WEBHOOK_ALLOW_PRIVATE: String(!reachable),
    // Behind a proxy of one's own the proxy says who calls; without one the connection does, and nobody else is asked.
    TRUSTED_PROXIES: options.publicUrl === undefined ? "0" : "1",
    API_URL: `${options.publicUrl ?? url}/functions/v1/v2-agent-state`,
    ...env,
    PUBLIC_URL: options.publicUrl ?? url,
    UNSUBSCRIBE_SECRET: env.UNSUBSCRIBE_SECRET || await localUnsubscribeSecret(dataDir),
    SESSION_ISSUER: issuer,
    POLAR_WEBHOOK_SECRET: env.POLAR_WEBHOOK_SECRET || await localPolarSecret(dataDir),
    BILLING_RETURN_ORIGINS: env.BILLING_RETURN_ORIGINS || "http://localhost:*,http://127.0.0.1:*",
    SESSION_AUDIENCE: audience,
    CRON_SECRET: cronSecret,
  });
  const platform: Platform = {
    db: database.db,
    blobs,
    sessions: createSessionVerifier(settings.sessions),
    ...openPolar(settings.polar, log),
    mailer: settings.mail.apiKey === undefined
      ? await openMailFiles(join(dataDir, "mail"), say)
      : openResendMailer(settings.mail),
    hooks: openWebhookSender({ allowPrivate: settings.webhookAllowPrivate }),
    providers: openProviders(settings, { allowPrivate: settings.webhookAllowPrivate }, log),
    names: openNameService(),
    now: () => new Date(),
    log,
    background: work.add,
  };
  const vault: Platform = { ...platform, now: vaultNow };
  ready(createRouter({
    "/functions/v1/v2-agent-state": createApp(platform, settings).fetch,
    "/functions/v1/vault": createVault(vault, settings).fetch,
    "/storage/v1/object/public": (request) => serveBlob(request, blobRoot),
    "/auth/v1/.well-known/jwks.json": () => Response.json(sessions.jwks()),
  }));

  if (options.schedule) {
    // Where hours pass in seconds, jobs that came every five minutes would come too late.
    const everySeconds = readSeconds(env.SCHEDULE_SECONDS) ?? (env.VAULT_CLOCK_SPEED ? 5 : undefined);
    const schedule = await startSchedule({
      db: database.db,
      origin: url,
      secret: cronSecret,
      log,
      everySeconds,
    });
    parts.defer(() => schedule.stop());
  }
  const startedAt = new Date().toISOString();
  await writeStackFile(dataDir, { pid: Deno.pid, url, databaseUrl, issuer, audience, startedAt });
  parts.defer(() => removeStackFile(dataDir));
  return { url, dataDir, databaseUrl, sessions, platform };
}

async function startDatabase(
  { fsync }: StackOptions,
  dataDir: string,
  say: (line: string) => void,
  parts: AsyncDisposableStack,
): Promise<string> {
  const postgres = await startPostgres({ dataDir, log: say, ...(fsync === undefined ? {} : { fsync }) });
  parts.defer(() => postgres.stop());
  return postgres.url;
}

/** Looks before Postgres boots, so that the commonest mistake is answered at once. */
function requireFreePort(hostname: string, port: number): void {
  try {
    Deno.listen({ hostname, port }).close();
  } catch (error) {
    throw portError(error, hostname, port);
  }
}

/** Listens. On stop, requests in flight have {@link DRAIN_MS} to finish. */
function serve(
  hostname: string,
  port: number,
  handler: (request: Request, info: Deno.ServeHandlerInfo<Deno.NetAddr>) => Promise<Response>,
  parts: AsyncDisposableStack,
): string {
  const abort = new AbortController();
  let server: Deno.HttpServer<Deno.NetAddr>;
  try {
    server = Deno.serve({ hostname, port, signal: abort.signal, onListen() {} }, handler);
  } catch (error) {
    throw portError(error, hostname, port);
  }
  parts.defer(async () => {
    const timer = setTimeout(() => abort.abort(), DRAIN_MS);
    await Promise.race([server.shutdown(), server.finished]);
    clearTimeout(timer);
  });
  // Listening everywhere is not an address; this machine's own always works then.
  const host = ["0.0.0.0", "::"].includes(hostname) ? "127.0.0.1" : hostname;
  return `http://${host.includes(":") ? `[${host}]` : host}:${server.addr.port}`;
}

function portError(error: unknown, hostname: string, port: number): unknown {
  if (error instanceof Deno.errors.AddrInUse) {
    return new PortInUse(`Port ${port} on ${hostname} is taken. Set PORT to another one, or to 0 for any.`);
  }
  if (error instanceof Deno.errors.PermissionDenied) {
    return new PortInUse(
      `Port ${port} on ${hostname} may not be used by this user. Set PORT to another one.`,
    );
  }
  return error;
}

function readSeconds(text: string | undefined): number | undefined {
  if (text === undefined || text === "") return undefined;
  if (!/^[1-9][0-9]{0,4}$/.test(text)) {
    throw new Error(`SCHEDULE_SECONDS is not a number of seconds: ${text}`);
  }
  return Number(text);
}

function isLoopback(hostname: string): boolean {
  return ["127.0.0.1", "localhost", "::1"].includes(hostname);
}

type Route = (
  request: Request,
  info: Deno.ServeHandlerInfo<Deno.NetAddr>,
) => Response | Promise<Response>;

function createRouter(
  routes: Record<string, Route>,
): (request: Request, info: Deno.ServeHandlerInfo<Deno.NetAddr>) => Promise<Response> {
  const entries = Object.entries(routes);
  return async function route(request, info) {
    const pathname = rawPath(request.url);
    for (const [prefix, answer] of entries) {
      if (
        pathname.startsWith(prefix) && (pathname.length === prefix.length || pathname[prefix.length] === "/")
      ) {
        return await answer(request, info);
      }
    }
    if (pathname === "/") {
      return new Response(["Encrypted agent state", ...Object.keys(routes)].join("\n") + "\n");
    }
    return Response.json({ error: "route_not_found" }, { status: 404 });
  };
}

function writeLog(record: LogRecord): void {
  const line = JSON.stringify({ at: new Date().toISOString(), ...record });
  // One line for each request, written by itself, would cost a tenth of the request.
  if (record.level === "info") printSoon(line);
  else print(line);
}
