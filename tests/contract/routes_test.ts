/** Every route of the spec is mounted, and no other; and nothing that mounts or handles them outgrows a screen. */

import assert from "node:assert/strict";
import type { Hono } from "hono";
import { readSettings } from "../../supabase/functions/_shared/env.ts";
import type { Platform } from "../../supabase/functions/_shared/platform/mod.ts";
import { createApp as createAgentStateApp } from "../../supabase/functions/v2-agent-state/app.ts";
import { createApp as createVaultApp } from "../../supabase/functions/vault/app.ts";
import { readSources, type Source } from "./sources.ts";

/** The routes of the spec's section 4 that exist so far, and the health check that operators and the local stack rely on. */
const AGENT_STATE_ROUTES = [
  "GET /health",
  "GET /openapi.json",
  // 4.1 Snapshots
  "POST /snapshot",
  "GET /snapshot/:agent_id/latest",
  "GET /snapshot/:agent_id/:sequence",
  "GET /snapshot/:agent_id/lineage",
  // 4.2 Replication log
  "POST /replicate",
  "GET /head",
  "GET /replay",
  // 4.3 Layer-A reads
  "GET /metadata",
  "GET /envelopes",
  // 4.4 API keys
  "POST /api-keys",
  "GET /api-keys",
  "DELETE /api-keys/:id",
  // 4.5 Teams, and the revocation of one sub-key
  "POST /teams",
  "GET /teams",
  "POST /teams/:id/grants",
  "GET /teams/:id/grant",
  "POST /teams/:id/rotate",
  "POST /teams/:id/memories",
  "GET /teams/:id/memories",
  "POST /teams/:id/subkeys",
  "DELETE /teams/:id/subkeys/:key_id",
  "GET /teams/:id/sync-log",
  "GET /teams/:id/members",
  "POST /teams/:id/invitations",
  "POST /teams/:id/guardians/invite",
  "GET /teams/:id/audit",
  "GET /teams/:id/audit/verify",
  "GET /teams/:id/audit/export",
  // 4.6 Billing
  "POST /billing/create-checkout",
  "POST /billing/customer-portal",
  "POST /billing/update-seats",
  "POST /billing/webhook",
  "GET /billing/subscription",
  "GET /billing/usage",
  // 4.7 Settings and telemetry
  "GET /settings",
  "PUT /settings",
  "POST /telemetry",
  // 4.8 Other routes
  "GET /account/kdf-salt",
  "GET /kdf-salt",
  "POST /invitations/accept",
  "POST /webhooks",
  "GET /webhooks",
  "DELETE /webhooks/:id",
  "POST /webhooks/:id/test",
  "GET /webhooks/:id/deliveries",
  "POST /webhooks/:id/rotate-secret",
  "POST /webhooks/dispatch",
  "GET /sso/:teamId/config",
  "PUT /sso/:teamId/config",
  "POST /sso/:teamId/scim-tokens",
  "GET /sso/:teamId/scim-tokens",
  "DELETE /sso/:teamId/scim-tokens/:id",
  // 4.8 SCIM
  "GET /scim/v2/ServiceProviderConfig",
  "GET /scim/v2/ResourceTypes",
  "GET /scim/v2/ResourceTypes/:id",
  "GET /scim/v2/Schemas",
  "GET /scim/v2/Schemas/:id",
  "POST /scim/v2/.search",
  "POST /scim/v2/Users/.search",
  "POST /scim/v2/Groups/.search",
  ...["Users", "Groups"].flatMap((kind) => [
    `GET /scim/v2/${kind}`,
    `POST /scim/v2/${kind}`,
    `GET /scim/v2/${kind}/:id`,
    `PUT /scim/v2/${kind}/:id`,
    `PATCH /scim/v2/${kind}/:id`,
    `DELETE /scim/v2/${kind}/:id`,
  ]),
  "POST /retention/purge",
  "POST /lifecycle/dispatch",
  "POST /marketing/capture",
  "POST /marketing/confirm",
  "POST /marketing/unsubscribe",
];

const VAULT_ROUTES = [
  "GET /health",
  "GET /openapi.json",
  // 4.9 Vault interface
  "GET /api/vault",
  "POST /api/vault",
  "GET /api/vault/:id",
  "POST /api/vault/:id/heir",
  "DELETE /api/vault/:id/heir/:person_id",
  "POST /api/vault/:id/heir/:person_id/confirm",
  "POST /api/vault/:id/heir/:person_id/resend",
  "POST /api/vault/:id/guardian",
  "DELETE /api/vault/:id/guardian/:person_id",
  "POST /api/vault/:id/guardian/:person_id/confirm",
  "POST /api/vault/:id/guardian/:person_id/resend",
  "POST /api/vault/:id/asset",
  "GET /api/vault/:id/asset/:asset_id",
  "DELETE /api/vault/:id/asset/:asset_id",
  "POST /api/vault/:id/asset/:asset_id/keys",
  "POST /api/vault/:id/release/config",
  "DELETE /api/vault/:id/changes/:change_id",
  "GET /api/vault/:id/audit",
  "GET /api/vault/:id/audit/verify",
  "GET /api/vault/:id/audit/export",
  "POST /api/vault/:id/check-in",
  "POST /api/vault/:id/release",
  "POST /api/vault/:id/release/veto",
  "POST /api/vault/:id/release/rearm",
  "POST /api/vault/invitation",
  "POST /api/vault/invitation/accept",
  "POST /api/vault/invitation/decline",
  "POST /api/vault/:id/claim",
  "POST /api/vault/:id/claim/:claim_id/vote",
  "POST /api/vault/:id/claim/:claim_id/withdraw",
  "POST /api/vault/:id/pick-up",
  "POST /api/vault/:id/pick-up/:asset_id",
  "POST /release/dispatch",
];

const HANDLER_LINES_MAX = 30;
const APP_LINES_MAX = 150;
const TYPESCRIPT_LINES_MAX = 350;
const SQL_LINES_MAX = 400;
const GENERATED = ["supabase/schema.sql", "supabase/database.types.ts"];

/** Mounting routes asks the platform for nothing. */
const PLATFORM: Platform = {
  db: { call: unreachable, rows: unreachable },
  blobs: { put: unreachable, publicUrl: unreachable, remove: unreachable, ping: unreachable },
  sessions: { verify: unreachable },
  seats: { change: unreachable },
  payments: {
    createCheckout: unreachable,
    createPortalSession: unreachable,
    verifyEvent: unreachable,
  },
  mailer: { send: unreachable },
  hooks: { findFault: unreachable, send: unreachable },
  providers: {
    fetchMetadata: unreachable,
    registers: false,
    create: unreachable,
    update: unreachable,
    remove: unreachable,
    find: unreachable,
  },
  names: { findTexts: unreachable },
  now: unreachable,
  log: unreachable,
  background: unreachable,
};

function unreachable(): never {
  throw new Error("Mounting routes must not reach for the platform");
}

interface Mounted {
  route: string;
  handler: string;
}

/** The last function of each route; those before it are middleware of that route. */
// deno-lint-ignore no-explicit-any
function listRoutes(app: Hono<any>): Mounted[] {
  const last = new Map<string, string>();
  for (const { method, path, handler } of app.routes) {
    if (method !== "ALL") last.set(`${method} ${path}`, handler.name);
  }
  return [...last].map(([route, handler]) => ({ route, handler }));
}

const settings = readSettings({});
const APPS = [
  {
    name: "v2-agent-state",
    routes: listRoutes(createAgentStateApp(PLATFORM, settings)),
    expected: AGENT_STATE_ROUTES,
  },
  { name: "vault", routes: listRoutes(createVaultApp(PLATFORM, settings)), expected: VAULT_ROUTES },
];

for (const { name, routes, expected } of APPS) {
  Deno.test(`${name} has exactly the routes of the spec`, () => {
    assert.deepEqual(routes.map(({ route }) => route).sort(), [...expected].sort());
  });

  Deno.test(`every handler of ${name} fits on a screen`, () => {
    const handlers = readSources("supabase/functions", ".ts").filter(({ path }) =>
      path.includes("/handlers/")
    );
    for (const { route, handler } of routes) {
      const lengths = handlers.flatMap((source) => lengthOf(handler, source));
      assert.equal(lengths.length, 1, `${route}: no handlers/ file, or several, export function ${handler}`);
      assert.ok(lengths[0]! <= HANDLER_LINES_MAX, `${route}: ${handler} has ${lengths[0]} lines`);
    }
  });
}

/** Lines of an exported top-level function, or nothing when the file has none of that name. */
function lengthOf(name: string, { text }: Source): number[] {
  const lines = text.split("\n");
  const start = lines.findIndex((line) => new RegExp(`^export (?:async )?function ${name}\\b`).test(line));
  if (start < 0) return [];
  return [lines.indexOf("}", start) - start + 1];
}

Deno.test("a more specific restore route is mounted before the one for any sequence", () => {
  const order = APPS[0]!.routes.map(({ route }) => route);
  const any = order.indexOf("GET /snapshot/:agent_id/:sequence");
  assert.ok(order.indexOf("GET /snapshot/:agent_id/latest") < any);
  assert.ok(order.indexOf("GET /snapshot/:agent_id/lineage") < any);
});

Deno.test("every app file fits on one page, every other file on a few", () => {
  for (const { path, text } of readSources(".", ".ts")) {
    if (GENERATED.includes(path)) continue;
    const isApp = /^supabase\/functions\/[^/]+\/app\.ts$/.test(path);
    assertLines(path, text, isApp ? APP_LINES_MAX : TYPESCRIPT_LINES_MAX);
  }
});

Deno.test("every SQL file that people write can be read in one sitting", () => {
  for (const { path, text } of readSources(".", ".sql")) {
    if (!GENERATED.includes(path)) assertLines(path, text, SQL_LINES_MAX);
  }
});

function assertLines(path: string, text: string, max: number): void {
  const lines = text.trimEnd().split("\n").length;
  assert.ok(lines <= max, `${path} has ${lines} lines; ${max} are allowed`);
}
