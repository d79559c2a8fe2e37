/** What happens to every request around its route: identifiers, CORS, prefixes, failures, the log. Spec 4, 7, 9. */

import assert from "node:assert/strict";
import { createClient } from "@supabase/supabase-js";
import { openDirectDatabase } from "../../supabase/functions/_shared/platform/database_direct.ts";
import { openRestDatabase } from "../../supabase/functions/_shared/platform/database_rest.ts";
import type { Database } from "../../supabase/functions/_shared/platform/mod.ts";
import { chunk, newProjectToken, replicateBody, snapshotBody } from "../support/factories.ts";
import { onOneBackend, type World } from "../support/harness.ts";

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const EXPOSED = ["x-request-id", "x-result-count", "x-next-cursor", "retry-after"];

/** Method, path, body and the pattern that the log shows. */
const ROUTES: [string, string, unknown, string][] = [
  ["GET", "/health", undefined, "/health"],
  ["POST", "/snapshot", snapshotBody(), "/snapshot"],
  ["GET", "/snapshot/my-agent/latest", undefined, "/snapshot/:agent_id/latest"],
  ["GET", "/snapshot/my-agent/lineage", undefined, "/snapshot/:agent_id/lineage"],
  ["GET", "/snapshot/my-agent/0", undefined, "/snapshot/:agent_id/:sequence"],
  ["POST", "/replicate", replicateBody(chunk(0)), "/replicate"],
  ["GET", "/head", undefined, "/head"],
  ["GET", "/replay?since=0", undefined, "/replay"],
  ["GET", "/metadata", undefined, "/metadata"],
  ["GET", "/envelopes", undefined, "/envelopes"],
];

const NO_ROUTES: [string, string][] = [
  ["GET", "/"],
  ["GET", "/nothing"],
  ["GET", "/v2/nothing"],
  ["GET", "/v3/head"],
  ["GET", "/headless"],
  ["GET", "/head/"],
  ["GET", "//head"],
  ["GET", "/HEAD"],
  ["POST", "/head"],
  ["PUT", "/snapshot"],
  ["GET", "/snapshot"],
  ["DELETE", "/replicate"],
  ["PATCH", "/envelopes"],
  ["POST", "/health"],
  ["GET", "/snapshot/agent"],
  ["GET", "/snapshot/agent/0/more"],
  ["GET", "/__proto__"],
  ["GET", "/%2e%2e/%2e%2e/etc/passwd"],
];

const PREFIXES = [
  "",
  "/v2",
  "/v2-agent-state",
  "/v2-agent-state/v2",
  "/v2/v2-agent-state",
  "/functions/v1/v2-agent-state",
  "/functions/v1/v2-agent-state/v2",
  "/v2/v2",
];

onOneBackend((test) => {
  test("x-request-id is echoed when it is sane and made otherwise, and error bodies carry it", async (world) => {
    for (const id of ["abc-123", "0".repeat(255), crypto.randomUUID()]) {
      const answer = await world.request("GET", "/head", { headers: { "x-request-id": id } });
      assert.equal(answer.headers.get("x-request-id"), id);
      assert.equal(answer.body.request_id, id);
    }
    for (const id of ["", "a b", "<script>", "a\tb", '"', "0".repeat(256), "é"]) {
      const answer = await world.request("GET", "/head", { headers: { "x-request-id": id } });
      assert.match(answer.headers.get("x-request-id")!, UUID, id);
      assert.equal(answer.body.request_id, answer.headers.get("x-request-id"));
    }
    const fine = await world.request("GET", "/metadata", { token: newProjectToken() });
    assert.match(fine.headers.get("x-request-id")!, UUID);
  });

  test("a preflight allows any origin by default, every method and every header that we read", async (world) => {
    const answer = await world.request("OPTIONS", "/replicate", {
      headers: {
        origin: "https://dashboard.test",
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,content-type,x-device-id",
      },
    });
    assert.equal(answer.status, 204);
    assert.equal(answer.headers.get("access-control-allow-origin"), "*");
    assert.equal(answer.headers.get("access-control-allow-credentials"), null);
    const methods = list(answer.headers.get("access-control-allow-methods"));
    for (const method of ["get", "post", "put", "delete"]) assert.ok(methods.includes(method), method);
    const headers = list(answer.headers.get("access-control-allow-headers"));
    for (const name of ["authorization", "content-type", "x-device-id", "x-request-id"]) {
      assert.ok(headers.includes(name), name);
    }
  });

  test("answers and refusals alike may be read from any origin, with the headers of ours", async (world) => {
    const headers = { origin: "https://dashboard.test" };
    for (const [path, token] of [["/envelopes", newProjectToken()], ["/envelopes", undefined], ["/no", ""]]) {
      const answer = await world.request("GET", path!, { headers, ...(token ? { token } : {}) });
      assert.equal(answer.headers.get("access-control-allow-origin"), "*");
      const exposed = list(answer.headers.get("access-control-expose-headers"));
      for (const name of EXPOSED) assert.ok(exposed.includes(name), `${path} ${name}`);
    }
  });

  test("with a list of origins only those on it are reflected", async (world) => {
    const listed = ["https://one.test", "https://two.test:8443"];
    const service = world.with({ settings: { corsOrigins: listed } });
    const others = ["https://evil.test", "https://one.test.evil.test", "http://one.test", "null"];
    for (const origin of [...listed, ...others]) {
      for (const method of ["GET", "OPTIONS"]) {
        const headers = { origin, "access-control-request-method": "GET" };
        const answer = await service.request(method, "/head", { headers });
        const expected = listed.includes(origin) ? origin : null;
        assert.equal(answer.headers.get("access-control-allow-origin"), expected, `${method} ${origin}`);
      }
    }
  });

  test("paths and methods without a route answer 404 route_not_found with and without a token", async (world) => {
    for (const [method, path] of NO_ROUTES) {
      for (const options of [{}, { token: newProjectToken() }, { token: "nonsense" }]) {
        const answer = await world.request(method, path, options);
        assert.deepEqual([answer.status, answer.body?.error], [404, "route_not_found"], `${method} ${path}`);
        assert.deepEqual(Object.keys(answer.body).sort(), ["error", "request_id"]);
      }
    }
  });

  test("any mix of the prefixes leads to the same routes", async (world) => {
    const token = newProjectToken();
    for (const [i, prefix] of PREFIXES.entries()) {
      const body = replicateBody(chunk(i));
      const written = await world.request("POST", `${prefix}/replicate`, { token, body });
      assert.deepEqual([written.status, written.body.sequence_number], [200, i], prefix);
      const replay = await world.request("GET", `${prefix}/replay?since=-1`, { token });
      assert.deepEqual([replay.status, replay.body.count], [200, i + 1], prefix);
      assert.equal((await world.request("GET", `${prefix}/nothing`, { token })).status, 404);
    }
    // An agent may be called like a prefix.
    for (const agent_id of ["v2", "v2-agent-state", "functions"]) {
      assert.equal(
        (await world.request("POST", "/snapshot", { token, body: snapshotBody({ agent_id }) })).status,
        200,
      );
      assert.equal((await world.request("GET", `/v2/snapshot/${agent_id}/0`, { token })).status, 200);
    }
  });

  test("no answer may be cached or sniffed", async (world) => {
    const token = newProjectToken();
    for (const [method, path, body] of [...ROUTES, ["GET", "/nothing", undefined]] as const) {
      for (const options of [{ token, body }, { body }]) {
        const { headers } = await world.request(method, path, options);
        assert.equal(headers.get("cache-control"), "no-store", path);
        assert.equal(headers.get("x-content-type-options"), "nosniff", path);
        assert.match(headers.get("content-type")!, /^application\/json/, path);
      }
    }
  });

  test("an unexpected exception answers 500 internal_error that says nothing else", async (world) => {
    const fail = () => Promise.reject(new Error("secret: relation app.logs"));
    const service = world.with({ db: { call: fail, rows: fail } });
    for (const [method, path, body] of ROUTES) {
      const before = world.logs.length;
      const answer = await service.request(method, path, { token: newProjectToken(), body });
      assert.equal(answer.status, 500, path);
      const request_id = answer.headers.get("x-request-id");
      assert.deepEqual(answer.body, { error: "internal_error", request_id }, path);
      const lines = world.logs.slice(before);
      assert.ok(!JSON.stringify(lines).includes("secret"));
      const unexpected = lines.find((line) => line.event === "unexpected_error");
      assert.deepEqual([unexpected?.level, unexpected?.request_id], ["error", request_id], path);
    }
  });

  test("a database that cannot be reached answers 503 with Retry-After on every route", async (world) => {
    const port = closedPort();
    const log = world.platform.log;
    const direct = openDirectDatabase({
      url: `postgresql://postgres@127.0.0.1:${port}/none`,
      poolSize: 1,
      prepared: true,
      log,
    });
    const rest = openRestDatabase(createClient(`http://127.0.0.1:${port}`, "key"), log);
    await Promise.all([direct.db, rest].map((db) => assertUnavailable(world, db)));
    await direct.close();
  });

  test("Server-Timing is sent only when it is switched on", async (world) => {
    const token = newProjectToken();
    const off = await world.request("POST", "/replicate", { token, body: replicateBody(chunk(0)) });
    assert.equal(off.headers.get("server-timing"), null);
    const service = world.with({ settings: { serverTiming: true } });
    const on = await service.request("POST", "/replicate", { token, body: replicateBody(chunk(1)) });
    assert.match(on.headers.get("server-timing")!, /database;dur=[0-9.]+/);
    assert.match(on.headers.get("server-timing")!, /total;dur=[0-9.]+/);
  });

  test("GET /health answers ok without a token, and 503 when the blob store does not answer", async (world) => {
    const fine = await world.request("GET", "/health");
    assert.deepEqual([fine.status, fine.body], [200, { status: "ok" }]);
    const service = world.with({ blobs: { ping: () => Promise.reject(new Error("disk is full")) } });
    const away = await service.request("GET", "/health");
    assert.deepEqual([away.status, away.body.error], [503, "storage_unavailable"]);
    assert.ok(Number(away.headers.get("retry-after")) >= 1);
    assert.ok(!away.text.includes("disk"));
  });

  test("each request is one log line with its route's pattern, status and time", async (world) => {
    const token = newProjectToken();
    for (const [method, path, body, route] of ROUTES) {
      for (const options of [{ token, body }, { body }]) {
        const { lines, answer } = await logged(world, method, path, options);
        assert.equal(lines.length, 1, path);
        const { ms, ...line } = lines[0]!;
        assert.ok(typeof ms === "number" && ms >= 0 && ms < 60_000);
        assert.deepEqual(line, {
          level: "info",
          event: "request",
          request_id: answer.headers.get("x-request-id"),
          method,
          route,
          status: answer.status,
          error: answer.status === 200 ? null : answer.body.error,
        });
      }
    }
    const { lines } = await logged(world, "GET", "/my-agent/nothing", {});
    assert.deepEqual(lines.map((line) => [line.status, line.error]), [[404, "route_not_found"]]);
    assert.ok(!JSON.stringify(world.logs).includes("my-agent"));
  });
});

async function assertUnavailable(world: World, db: Database): Promise<void> {
  const service = world.with({ db });
  await Promise.all(ROUTES.map(async ([method, path, body]) => {
    const answer = await service.request(method, path, { token: newProjectToken(), body });
    assert.deepEqual([answer.status, answer.body.error], [503, "service_unavailable"], path);
    assert.ok(Number(answer.headers.get("retry-after")) >= 1, path);
    assert.deepEqual(Object.keys(answer.body).sort(), ["error", "request_id"]);
  }));
}

async function logged(
  world: World,
  method: string,
  path: string,
  options: { token?: string; body?: unknown },
) {
  const answer = await world.request(method, path, options);
  const id = answer.headers.get("x-request-id");
  return { answer, lines: world.logs.filter((line) => line.event === "request" && line.request_id === id) };
}

/** A port that nobody listens on: one that was free a moment ago. */
function closedPort(): number {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  return listener.addr.port;
}

function list(header: string | null): string[] {
  return (header ?? "").toLowerCase().split(",").map((item) => item.trim());
}
