/** The platform of a deployed function: Supabase's database and storage, configured by the environment. */

import { createClient } from "@supabase/supabase-js";
import type { Settings } from "../env.ts";
import { openBlobStorage } from "./blob_storage.ts";
import { openDirectDatabase } from "./database_direct.ts";
import { openRestDatabase } from "./database_rest.ts";
import { openResendMailer } from "./mailer_resend.ts";
import type { LogRecord, Platform } from "./mod.ts";
import { openNameService } from "./name_service.ts";
import { openPolar } from "./payments_polar.ts";
import { openProviders } from "./providers_supabase.ts";
import { createSessionVerifier } from "./session_verifier.ts";
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
  const db = settings.databaseUrl === undefined ? openRestDatabase(client, writeLog) : openDirectDatabase({
    url: settings.databaseUrl,
    poolSize: settings.databasePool,
    prepared: settings.databasePrepared,
    log: writeLog,
  }).db;
  return {
    db,
    blobs: openBlobStorage(client),
    sessions: createSessionVerifier(settings.sessions),
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

/** One line of JSON for each record. */
export function writeLog(record: LogRecord): void {
  // deno-lint-ignore no-console
  console.log(JSON.stringify({ at: new Date().toISOString(), ...record }));
}

function keepAlive(work: Promise<void>): void {
  if (typeof EdgeRuntime !== "undefined") EdgeRuntime.waitUntil(work);
}
