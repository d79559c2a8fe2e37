/**
 * The service in a process of its own, so that a test can measure that process: `serve_child.ts DATABASE_URL`.
 *
 * Prints its port and serves until it is killed. It has a small pool and no blob store.
 */

import { readSettings } from "../../supabase/functions/_shared/env.ts";
import { openDirectDatabase } from "../../supabase/functions/_shared/platform/database_direct.ts";
import type { BlobStore } from "../../supabase/functions/_shared/platform/mod.ts";
import { openNameService } from "../../supabase/functions/_shared/platform/name_service.ts";
import { openPolar } from "../../supabase/functions/_shared/platform/payments_polar.ts";
import { openProviders } from "../../supabase/functions/_shared/platform/providers_supabase.ts";
import { openWebhookSender } from "../../supabase/functions/_shared/platform/webhook_sender.ts";
import { createSessionVerifier } from "../../supabase/functions/_shared/platform/session_verifier.ts";
import { createApp } from "../../supabase/functions/v2-agent-state/app.ts";

const NO_BLOBS: BlobStore = {
  put: () => Promise.reject(new Error("This process has no blob store")),
  publicUrl: (name) => name,
  remove: () => Promise.resolve(),
  ping: () => Promise.resolve(),
};

const url = Deno.args[0];
if (url === undefined) throw new Error("Usage: serve_child.ts DATABASE_URL");
const { db } = openDirectDatabase({ url, poolSize: 2, prepared: true, role: "service_role", log() {} });
const settings = readSettings({});
const app = createApp({
  db,
  blobs: NO_BLOBS,
  sessions: createSessionVerifier(undefined),
  ...openPolar(settings.polar, () => {}),
  mailer: { send: () => Promise.resolve() },
  hooks: openWebhookSender({ allowPrivate: false }),
  providers: openProviders(settings, { allowPrivate: false }, () => {}),
  names: openNameService(),
  now: () => new Date(),
  log() {},
  background() {},
}, settings);
Deno.serve({
  hostname: "127.0.0.1",
  port: 0,
  onListen: ({ port }) => void Deno.stdout.writeSync(new TextEncoder().encode(`${port}\n`)),
}, app.fetch);
