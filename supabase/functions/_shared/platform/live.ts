/** The platform of a deployed function: Supabase's database and storage, configured by the environment. */

import { createClient } from "@supabase/supabase-js";
import type { Settings } from "../env.ts";
import { openBlobStorage } from "./blob_storage.ts";
import { openRestDatabase } from "./database_rest.ts";
import { openResendMailer } from "./mailer_resend.ts";
import type { Database, LogRecord, Platform, SessionVerifier } from "./mod.ts";
import { openNameService } from "./name_service.ts";
import { openPolar } from "./payments_polar.ts";
import { openProviders } from "./providers_supabase.ts";
import { openWebhookSender } from "./webhook_sender.ts";

/** No call to the project may take longer: a request has 150 s before the gateway gives up. */
const FETCH_TIMEOUT_MS = 20_000;

/** Hosted isolates end when no request runs; this keeps one alive for work that outlives its response. */
declare const EdgeRuntime: { waitUntil(work: Promise<void>): void } | undefined;

/** Builds the live platform. Throws when the project's address or key is missing. */
export function createPlatform(settings: Settings): Platform {
  if (settings.supabaseUrl === undefined || settings.supabaseKey === undefined) {
    throw new Error(
      "Cannot start: SUPABASE_URL and SUPABASE_SECRET_KEYS (or …_SERVICE_ROLE_KEY) must be set",
    );
  }
  const client = createClient(settings.supabaseUrl, settings.supabaseKey, {
    auth: { persistSession: false, autoRefreshToken: false, detectSessionInUrl: false },
    global: {
      fetch: (input, init) => fetch(input, { ...init, signal: AbortSignal.timeout(FETCH_TIMEOUT_MS) }),
    },
  });
  return {
    db: openDirectly(settings) ?? openRestDatabase(client, writeLog),
    blobs: openBlobStorage(client),
    sessions: openSessions(settings),
    ...openPolar(settings.polar, writeLog),
    mailer: openResendMailer(settings.mail),
    hooks: openWebhookSender({ allowPrivate: settings.webhookAllowPrivate }),
    providers: openProviders(settings, { allowPrivate: settings.webhookAllowPrivate }, writeLog),
    names: openNameService(),
    now: () => new Date(),
    log: writeLog,
    background: keepAlive,
  };
}

/** The database over a connection of our own, where its address is given. The driver is read at the first call. */
function openDirectly(settings: Settings): Database | undefined {
  const { databaseUrl: url, databasePool: poolSize, databasePrepared: prepared } = settings;
  if (url === undefined) return undefined;
  const open = once(async () => {
    const { openDirectDatabase } = await import("./database_direct.ts");
    return openDirectDatabase({ url, poolSize, prepared, log: writeLog }).db;
  });
  return {
    call: async (name, args) => await (await open()).call(name, args),
    rows: async (name, args, bytesMax) => await (await open()).rows(name, args, bytesMax),
  };
}

/** Whoever brings an API key needs no verifier, so it is read when the first session comes. */
function openSessions({ sessions }: Settings): SessionVerifier {
  const open = once(async () => (await import("./session_verifier.ts")).createSessionVerifier(sessions));
  return { verify: async (token) => await (await open()).verify(token) };
}

/** Does the work at the first call; every call gets its result. */
function once<T>(work: () => Promise<T>): () => Promise<T> {
  let result: Promise<T> | undefined;
  return () => result ??= work();
}

/** One line of JSON for each record. */
export function writeLog(record: LogRecord): void {
  // deno-lint-ignore no-console
  console.log(JSON.stringify({ at: new Date().toISOString(), ...record }));
}

function keepAlive(work: Promise<void>): void {
  if (typeof EdgeRuntime !== "undefined") EdgeRuntime.waitUntil(work);
}
