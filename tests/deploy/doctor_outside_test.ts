/** The doctor from outside: deployments that are broken on purpose, each with the sentence that names the fault. */

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { examine } from "../../local/doctor.ts";
import type { Finding } from "../../local/doctor_report.ts";
import { ApiError } from "../../supabase/functions/_shared/errors.ts";
import { createSessionVerifier } from "../../supabase/functions/_shared/platform/session_verifier.ts";
import { assertGreen, assertRed, type Faults, withDeployment } from "../support/deployment.ts";
import { onOneBackend, type World } from "../support/harness.ts";

interface Case {
  name: string;
  faults(world: World): Faults;
  check: string;
  saw: RegExp;
  mend: RegExp;
}

function isJwt(request: Request): boolean {
  return /^Bearer [\w-]+\.[\w-]+\.[\w-]+$/.test(request.headers.get("authorization") ?? "");
}

function without(request: Request, header: string): Request {
  const headers = new Headers(request.headers);
  headers.delete(header);
  return new Request(request, { headers });
}

const away = (code: "service_unavailable" | "storage_unavailable") => () =>
  Promise.reject(new ApiError(code));

const CASES: Case[] = [
  {
    name: "verify_jwt was left on",
    faults: () => ({
      proxy: (request, pass) =>
        isJwt(request)
          ? pass(request)
          : Response.json({ code: 401, message: "Missing authorization header" }, { status: 401 }),
    }),
    check: "function state",
    saw: /the gateway wants a JWT of its own: 401 .*Missing authorization header/,
    mend: /verify_jwt = false/,
  },
  {
    name: "the gateway refuses only what carries an API key",
    faults: () => ({
      proxy: (request, pass) =>
        request.headers.has("authorization") && !isJwt(request)
          ? Response.json({ code: 401, message: "Invalid JWT" }, { status: 401 })
          : pass(request),
    }),
    check: "API keys",
    saw: /the gateway refuses what is no JWT: 401 .*Invalid JWT/,
    mend: /verify_jwt = false/,
  },
  {
    name: "the function was not deployed",
    faults: () => ({
      proxy: () =>
        Response.json({ code: "NOT_FOUND", message: "Requested function was not found" }, { status: 404 }),
    }),
    check: "function state",
    saw: /is not deployed there: 404/,
    mend: /functions deploy v2-agent-state vault/,
  },
  {
    name: "the second function was forgotten",
    faults: () => ({
      proxy: (request, pass) =>
        request.url.includes("/vault")
          ? Response.json({ code: "NOT_FOUND", message: "Requested function was not found" }, { status: 404 })
          : pass(request),
    }),
    check: "function vault",
    saw: /is not deployed there/,
    mend: /functions deploy v2-agent-state vault/,
  },
  {
    name: "the function does not start",
    faults: () => ({
      proxy: () =>
        Response.json({ code: "BOOT_ERROR", message: "Function failed to start" }, { status: 503 }),
    }),
    check: "function state",
    saw: /does not work: 503 .*BOOT_ERROR/,
    mend: /log/,
  },
  {
    name: "schema api cannot be reached",
    faults: () => ({
      platform: { db: { call: away("service_unavailable"), rows: away("service_unavailable") } },
    }),
    check: "function state",
    saw: /the database does not answer/,
    mend: /`api` among the exposed schemas/,
  },
  {
    name: "there is no bucket",
    faults: ({ platform }) => ({
      platform: { blobs: { ...platform.blobs, ping: away("storage_unavailable") } },
    }),
    check: "function state",
    saw: /the blob store does not answer/,
    mend: /bucket agent-state/,
  },
  {
    name: "a proxy removes the Authorization header",
    faults: () => ({ proxy: (request, pass) => pass(without(request, "authorization")) }),
    check: "API keys",
    saw: /Authorization header does not arrive/,
    mend: /proxy/,
  },
  {
    name: "a proxy rewrites paths",
    faults: () => ({
      proxy: (request, pass) =>
        request.url.includes("/v2/") ? new Response("Not here", { status: 404 }) : pass(request),
    }),
    check: "paths",
    saw: /\/v2\/health: 404 Not here/,
    mend: /pass them on as they come/,
  },
  {
    name: "a proxy answers preflights itself",
    faults: () => ({
      proxy: (request, pass) =>
        request.method === "OPTIONS" ? new Response(null, { status: 204 }) : pass(request),
    }),
    check: "CORS",
    saw: /a preflight is not answered by the function: 204/,
    mend: /OPTIONS/,
  },
  {
    name: "the clock is wrong",
    faults: () => ({
      proxy: async (request, pass) => {
        const response = await pass(request);
        const headers = new Headers(response.headers);
        headers.set("date", new Date(Date.now() - 600_000).toUTCString());
        return new Response(response.body, { status: response.status, headers });
      },
    }),
    check: "clock",
    saw: /differs by -(599|600|601) s/,
    mend: /NTP/,
  },
  {
    name: "the project's sessions are signed with a shared secret",
    faults: (world) => {
      world.issuer.outage = () => Response.json({ keys: [] });
      return {};
    },
    check: "session keys",
    saw: /no asymmetric key among 0/,
    mend: /asymmetric signing key/,
  },
  {
    name: "the service cannot reach its issuer",
    faults: () => ({
      platform: {
        sessions: createSessionVerifier({
          jwksUrl: "http://127.0.0.1:9/jwks.json",
          issuer: undefined,
          audience: undefined,
        }),
      },
    }),
    check: "sessions",
    saw: /cannot fetch its issuer's keys/,
    mend: /SESSION_JWKS_URL/,
  },
  {
    name: "CRON_SECRET was forgotten",
    faults: () => ({ env: { CRON_SECRET: "" } }),
    check: "CRON_SECRET",
    saw: /is not set: no job can run/,
    mend: /openssl rand -hex 32/,
  },
  {
    name: "CRON_SECRET was copied from a manual",
    faults: () => ({ env: { CRON_SECRET: "change-me-change-me" } }),
    check: "CRON_SECRET",
    saw: /anybody may run the jobs/,
    mend: /openssl rand -hex 32/,
  },
  {
    name: "anybody can list the bucket",
    faults: () => ({ storage: () => Response.json([{ name: "an-object" }]) }),
    check: "bucket",
    saw: /anybody can list its objects/,
    mend: /select policies/,
  },
  {
    name: "the bucket is private",
    faults: () => ({
      storage: () =>
        Response.json({ statusCode: "404", error: "Bucket not found", message: "Bucket not found" }, {
          status: 400,
        }),
    }),
    check: "bucket",
    saw: /is not public, or not there/,
    mend: /migrations/,
  },
];

async function look(world: World, faults: Faults, write = false): Promise<Finding[]> {
  let findings: Finding[] = [];
  await withDeployment(world, faults, async (outside) => void (findings = await examine({ outside, write })));
  return findings;
}

onOneBackend((test) => {
  test("doctor: a deployment that works is green", async (world) => {
    assertGreen(await look(world, {}));
  });

  for (const { name, faults, check, saw, mend } of CASES) {
    test(`doctor: ${name}`, async (world) => {
      try {
        assertRed(await look(world, faults(world)), check, saw, mend);
      } finally {
        world.issuer.outage = undefined;
      }
    });
  }

  test("doctor: nothing is there, and keys would travel in the clear", async () => {
    const findings = await examine({ outside: { origin: "http://deployment.invalid" } });
    assertRed(findings, "transport", /http to deployment\.invalid: keys travel in the clear/, /TLS proxy/);
    assertRed(findings, "function state", /cannot be reached/, /address/);
  });

  test("doctor: what it stores with --write comes back, and is stored once however often it looks", async (world) => {
    for (let visit = 0; visit < 3; visit++) {
      const findings = await look(world, {}, true);
      assertGreen(findings);
      assert.ok(findings.some(({ check }) => check === "a snapshot"));
      assert.ok(findings.some(({ check }) => check === "a block"));
    }
    const { rows } = await world.sql.query(
      "select (select count(*)::int from app.snapshots) as snapshots, (select count(*)::int from app.log_entries) as blocks",
    );
    assert.deepEqual(rows, [{ snapshots: 1, blocks: 1 }]);
  });

  test("doctor: it is not fooled by somebody who wrote under its token, which is no secret", async (world) => {
    const hash = createHash("sha256").update("else").digest("hex");
    const chunk = { sequence_number: 1, block_hash: hash, ciphertext_b64: btoa("else") };
    for (const last of ["0", "1"]) {
      const { status } = await world.request("POST", "/replicate", {
        token: `sov_proj_d0c70000-0000-4000-8000-00000000000${last}`,
        body: { chunks: [chunk], merkle_root: hash },
      });
      assert.equal(status, 200);
    }
    assertGreen(await look(world, {}, true));
  });

  test("doctor: snapshots that are stored and not handed out, or changed on the way, are seen with --write", async (world) => {
    const { blobs } = world.platform;
    const at = (address: string) => ({ platform: { blobs: { ...blobs, publicUrl: () => address } } });
    const closed = await look(world, at("http://127.0.0.1:9/private"), true);
    assertRed(
      closed,
      "a snapshot",
      /stored, but http:\/\/127\.0\.0\.1:9 does not hand it out/,
      /bucket agent-state public/,
    );
    const changed = await look(world, at("data:text/plain,something-else"), true);
    assertRed(changed, "a snapshot", /comes back with other bytes/, /change or cache/);
  });
});
