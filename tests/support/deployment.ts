/** A deployment for the doctor to look at: both functions over HTTP as Supabase's gateway serves them, breakable. */

import assert from "node:assert/strict";
import type { Outside } from "../../local/doctor_outside.ts";
import type { Finding } from "../../local/doctor_report.ts";
import { readSettings } from "../../supabase/functions/_shared/env.ts";
import type { Platform } from "../../supabase/functions/_shared/platform/mod.ts";
import { openPolar } from "../../supabase/functions/_shared/platform/payments_polar.ts";
import { createApp } from "../../supabase/functions/v2-agent-state/app.ts";
import { createApp as createVault } from "../../supabase/functions/vault/app.ts";
import type { World } from "./harness.ts";

export const CRON_SECRET = "7b1e0c9f5a3d48d2b6e47f9a";

/** What is wrong with a deployment. */
export interface Faults {
  env?: Record<string, string>;
  platform?: Partial<Platform>;
  /** Stands in front of everything, as a gateway or a proxy does. */
  proxy?: (request: Request, pass: (request: Request) => Promise<Response>) => Response | Promise<Response>;
  /** Answers for Storage. */
  storage?: (path: string) => Response;
}

/** Serves a deployment for the time of `look`. */
export async function withDeployment(
  world: World,
  { env = {}, platform = {}, proxy, storage = noSuchObject }: Faults,
  look: (outside: Outside) => Promise<void>,
): Promise<void> {
  const settings = readSettings({ CRON_SECRET, POLAR_WEBHOOK_SECRET: "whsec_c2VjcmV0", ...env });
  const parts = { ...world.platform, ...openPolar(settings.polar, () => {}), ...platform };
  const [main, vault] = [createApp(parts, settings), createVault(parts, settings)];
  async function pass(request: Request): Promise<Response> {
    const { pathname } = new URL(request.url);
    if (pathname.startsWith("/functions/v1/v2-agent-state")) return await main.fetch(request);
    if (pathname.startsWith("/functions/v1/vault")) return await vault.fetch(request);
    return storage(pathname);
  }
  const server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    (request) => proxy === undefined ? pass(request) : proxy(request, pass),
  );
  try {
    await look({
      origin: `http://127.0.0.1:${server.addr.port}`,
      jwksUrl: world.issuer.settings.jwksUrl,
    });
  } finally {
    await server.shutdown();
  }
}

/** As Supabase Storage answers for an object that is not there. */
function noSuchObject(): Response {
  return Response.json({ statusCode: "404", error: "not_found", message: "Object not found" }, {
    status: 400,
  });
}

/** Fails unless the check found the fault, with a sentence and a way to mend it. */
export function assertRed(findings: readonly Finding[], check: string, saw: RegExp, mend: RegExp): void {
  const found = findings.find((each) => each.check === check);
  assert.ok(found !== undefined, `No check ${check} among ${findings.map((each) => each.check).join(", ")}`);
  assert.equal(found.state, "fail", `${check}: ${found.saw}`);
  assert.match(found.saw, saw);
  assert.match(found.mend, mend);
}

/** Fails if anything but `except` is red. */
export function assertGreen(findings: readonly Finding[], except: readonly string[] = []): void {
  const red = findings.filter(({ check, state }) => state === "fail" && !except.includes(check));
  assert.deepEqual(red, []);
}
