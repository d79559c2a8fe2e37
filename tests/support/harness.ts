/**
 * A running service for tests: real Postgres, a real blob store, real HTTP for downloads; once over each pair of
 * adapters. `onEveryBackend` defines the same tests for both. Whatever a test asks, the answer is held against the
 * reference.
 */

import type { Hono } from "hono";
import { createApp } from "../../supabase/functions/v2-agent-state/app.ts";
import { createApp as createVault } from "../../supabase/functions/vault/app.ts";
import type { AppEnv } from "../../supabase/functions/_shared/context.ts";
import { readSettings, type Settings } from "../../supabase/functions/_shared/env.ts";
import type {
  BlobStore,
  Database,
  LogRecord,
  Mail,
  Mailer,
  NameService,
  PaymentProvider,
  Platform,
  ProviderDirectory,
  SeatProvider,
  SessionVerifier,
  WebhookSender,
} from "../../supabase/functions/_shared/platform/mod.ts";
import { openDirectDatabase } from "../../supabase/functions/_shared/platform/database_direct.ts";
import { openBlobFiles, serveBlob } from "../../local/blob_files.ts";
import { openPolar } from "../../supabase/functions/_shared/platform/payments_polar.ts";
import { openProviders } from "../../supabase/functions/_shared/platform/providers_supabase.ts";
import { openWebhookSender } from "../../supabase/functions/_shared/platform/webhook_sender.ts";
import { createSessionVerifier } from "../../supabase/functions/_shared/platform/session_verifier.ts";
import { noteFailure } from "./claims.ts";
import { assertInvariants } from "./invariants.ts";
import { AGENT_STATE_BOOK, noteSeen, VAULT_BOOK } from "./books.ts";
import { cloneDatabase } from "./database.ts";
import { startIssuer, type TestIssuer } from "./issuer.ts";
import { openSupabaseStandIn } from "./supabase_stand_in.ts";

type Clone = Awaited<ReturnType<typeof cloneDatabase>>;

/** An answer, read whole. */
export interface Answer {
  status: number;
  /** The parsed body; undefined when it is not JSON. */
  // deno-lint-ignore no-explicit-any
  body: any;
  text: string;
  headers: Headers;
}

/** What a request may carry. `body` is sent as JSON unless it is a string or bytes. */
export interface RequestOptions {
  token?: string;
  body?: unknown;
  headers?: Record<string, string>;
}

/** Parts of the service that a test wants otherwise. */
export interface Overrides {
  blobs?: Partial<BlobStore>;
  db?: Database;
  sessions?: SessionVerifier;
  mailer?: Mailer;
  seats?: SeatProvider;
  payments?: PaymentProvider;
  hooks?: WebhookSender;
  providers?: ProviderDirectory;
  names?: NameService;
  /** The vault's clock. */
  now?: () => Date;
  /** What takes the work that goes on after an answer. */
  background?: Platform["background"];
  settings?: Partial<Settings>;
  /** Whether rows are broken on purpose: answers are not held against the reference then. */
  tampered?: boolean;
}

/** One service on one database of its own. */
export interface World {
  backend: string;
  sql: Clone["sql"];
  databaseUrl: string;
  platform: Platform;
  /** Who issues the sessions that this service takes. */
  issuer: TestIssuer;
  /** Set by a test that breaks rows on purpose: neither `tests/invariants.sql` nor the reference is held to then. */
  tampered: boolean;
  /** Lines that the service logged. */
  logs: LogRecord[];
  /** Mails that the service sent. */
  mails: Mail[];
  /** The TXT records of each name that has some, as the service sees the DNS. */
  texts: Map<string, string[]>;
  request(method: string, path: string, options?: RequestOptions): Promise<Answer>;
  /** Asks the vault interface. */
  requestVault(method: string, path: string, options?: RequestOptions): Promise<Answer>;
  /** The same service with some parts replaced. */
  with(overrides: Overrides): Pick<World, "request" | "requestVault" | "platform">;
  close(): Promise<void>;
}

interface Backend {
  name: string;
  open(
    clone: Clone,
    log: (record: LogRecord) => void,
  ): Promise<Pick<Platform, "db" | "blobs"> & AsyncDisposable>;
}

const BACKENDS: Backend[] = [
  { name: "direct driver and files", open: openDirect },
  { name: "REST layer and Supabase Storage", open: openSupabaseStandIn },
];

/** Defines tests that run over every pair of adapters. Sanitizers are off: pools and servers outlive a test. */
export function onEveryBackend(
  define: (test: (name: string, run: (world: World) => Promise<void>) => void) => void,
) {
  for (const backend of BACKENDS) onBackend(backend, define);
}

/** Defines tests of what does not depend on the adapters. */
export function onOneBackend(
  define: (test: (name: string, run: (world: World) => Promise<void>) => void) => void,
) {
  onBackend(BACKENDS[0]!, define);
}

function onBackend(
  backend: Backend,
  define: (test: (name: string, run: (world: World) => Promise<void>) => void) => void,
) {
  let world: Promise<World> | undefined;
  define((name, run) => {
    Deno.test({
      name: `${name} [${backend.name}]`,
      sanitizeOps: false,
      sanitizeResources: false,
      fn: async () => {
        try {
          await run(await (world ??= openWorld(backend)));
        } catch (error) {
          noteFailure();
          throw error;
        }
      },
    });
  });
  Deno.test.afterAll(async () => await (await world)?.close());
}

/** A world outside of any test, over the direct driver and files. */
export function openDirectWorld(): Promise<World> {
  return openWorld(BACKENDS[0]!);
}

async function openWorld(backend: Backend): Promise<World> {
  const clone = await cloneDatabase();
  const issuer = await startIssuer();
  const logs: LogRecord[] = [];
  const mails: Mail[] = [];
  const texts: World["texts"] = new Map();
  const work = new Set<Promise<void>>();
  const log = (record: LogRecord) => void logs.push(record);
  const opened = await backend.open(clone, log);
  const settings = readSettings({});
  const platform: Platform = {
    db: opened.db,
    blobs: opened.blobs,
    sessions: createSessionVerifier(issuer.settings),
    ...openPolar(settings.polar, log),
    mailer: { send: (mail) => Promise.resolve(void mails.push(mail)) },
    hooks: openWebhookSender({ allowPrivate: true }),
    providers: openProviders(settings, { allowPrivate: true }, log),
    names: { findTexts: (name) => Promise.resolve(texts.get(name) ?? []) },
    now: () => new Date(),
    log,
    background(promise) {
      work.add(promise);
      promise.finally(() => work.delete(promise)).catch(() => {});
    },
  };
  const world: World = {
    backend: backend.name,
    tampered: false,
    sql: clone.sql,
    databaseUrl: clone.url,
    platform,
    issuer,
    logs,
    mails,
    texts,
    request: sender(createApp(platform, settings), () => world.tampered),
    requestVault: sender(createVault(platform, settings), () => world.tampered, VAULT_BOOK),
    with(overrides) {
      const blobs = { ...platform.blobs, ...overrides.blobs };
      const other = {
        ...platform,
        blobs,
        db: overrides.db ?? platform.db,
        sessions: overrides.sessions ?? platform.sessions,
        mailer: overrides.mailer ?? platform.mailer,
        seats: overrides.seats ?? platform.seats,
        payments: overrides.payments ?? platform.payments,
        hooks: overrides.hooks ?? platform.hooks,
        providers: overrides.providers ?? platform.providers,
        names: overrides.names ?? platform.names,
        now: overrides.now ?? platform.now,
        background: overrides.background ?? platform.background,
      };
      const all = { ...settings, ...overrides.settings };
      const tampered = () => overrides.tampered ?? world.tampered;
      return {
        request: sender(createApp(other, all), tampered),
        requestVault: sender(createVault(other, all), tampered, VAULT_BOOK),
        platform: other,
      };
    },
    async close() {
      while (work.size > 0) await Promise.allSettled(work);
      if (!world.tampered) await assertInvariants(clone.sql);
      await opened[Symbol.asyncDispose]();
      await issuer.stop();
      await clone.drop();
      await noteSeen();
    },
  };
  return world;
}

async function openDirect(clone: Clone, log: (record: LogRecord) => void) {
  const directory = await Deno.makeTempDir();
  const { db, close } = openDirectDatabase({
    url: clone.url,
    poolSize: 8,
    prepared: true,
    role: "service_role",
    log,
  });
  const server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    (request) => serveBlob(request, `${directory}/blobs`),
  );
  const blobs = await openBlobFiles(`${directory}/blobs`, () => `http://127.0.0.1:${server.addr.port}`);
  return {
    db,
    blobs,
    async [Symbol.asyncDispose]() {
      await server.shutdown();
      await close();
      await Deno.remove(directory, { recursive: true });
    },
  };
}

/** Sends requests, and holds the answers against the reference: unless rows were broken on purpose. */
function sender(app: Hono<AppEnv>, isTampered: () => boolean, book = AGENT_STATE_BOOK): World["request"] {
  return async function request(method, path, { token, body, headers = {} } = {}) {
    const sent = body === undefined || typeof body === "string" || body instanceof Uint8Array
      ? body
      : JSON.stringify(body);
    const response = await app.request(`http://service.test${path}`, {
      method,
      headers: { ...(token === undefined ? {} : { authorization: `Bearer ${token}` }), ...headers },
      ...(sent === undefined ? {} : { body: sent as BodyInit }),
    });
    const text = await response.text();
    const answer = { status: response.status, text, body: parseJson(text), headers: response.headers };
    const operation = book.find(method, path);
    if (operation !== undefined && !isTampered()) book.check(operation, answer);
    return answer;
  };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
