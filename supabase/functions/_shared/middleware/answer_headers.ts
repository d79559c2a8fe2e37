/**
 * The headers of every answer: its request id, who may read it from where, and that it is data and nothing else.
 *
 * They are set on the answer once it is there. A header that is set sooner makes Hono build an empty answer, copy it
 * into the real one and copy its body: on the way of every request that costs more than all the rest of the frame.
 */

import { createMiddleware } from "hono/factory";
import { cors } from "hono/cors";
import type { AppContext, AppEnv } from "../context.ts";

const EXPOSED_HEADERS = ["x-request-id", "x-result-count", "x-next-cursor", "retry-after", "server-timing"];
const ALLOWED_HEADERS = ["authorization", "content-type", "x-api-key", "x-device-id", "x-request-id"];
const PREFLIGHT_SECONDS = 86_400;
const REQUEST_ID = /^[\w\-=]{1,255}$/;

/** Headers for answers that are data, never a page: nothing in them may be run, framed or sniffed. */
const FOR_DATA = Object.entries({
  "cache-control": "no-store",
  "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
  "cross-origin-resource-policy": "cross-origin",
  "referrer-policy": "no-referrer",
  "strict-transport-security": "max-age=15552000; includeSubDomains",
  "x-content-type-options": "nosniff",
  "x-permitted-cross-domain-policies": "none",
});

/** Takes a caller's own id of a request if it is harmless in a header and in a log; else makes one. */
export const identify = createMiddleware<AppEnv>(async function identify(c, next) {
  const given = c.req.header("x-request-id");
  const id = given !== undefined && REQUEST_ID.test(given) ? given : crypto.randomUUID();
  c.set("requestId", id);
  await next();
  c.res.headers.set("x-request-id", id);
});

/** Sets the headers that are the same for all. */
export const describeData = createMiddleware<AppEnv>(async function describeData(c, next) {
  await next();
  const { headers } = c.res;
  for (const [name, value] of FOR_DATA) headers.set(name, value);
});

/** Says which origins may read the answer, and answers preflights. `*` is any origin. */
export function shareAcrossOrigins(origins: readonly string[]) {
  const isOpen = origins.includes("*");
  const exposed = EXPOSED_HEADERS.join(",");
  const preflight = cors({
    origin: isOpen ? "*" : [...origins],
    allowMethods: ["GET", "POST", "PUT", "PATCH", "DELETE"],
    allowHeaders: ALLOWED_HEADERS,
    exposeHeaders: EXPOSED_HEADERS,
    maxAge: PREFLIGHT_SECONDS,
  });

  function allowedOrigin(c: AppContext): string | undefined {
    if (isOpen) return "*";
    const origin = c.req.header("origin") ?? "";
    return origins.includes(origin) ? origin : undefined;
  }

  return createMiddleware<AppEnv>(async function shareAcrossOrigins(c, next) {
    if (c.req.method === "OPTIONS") return await preflight(c, next);
    await next();
    const { headers } = c.res;
    const allowed = allowedOrigin(c);
    if (allowed !== undefined) headers.set("access-control-allow-origin", allowed);
    headers.set("access-control-expose-headers", exposed);
    if (!isOpen) headers.append("vary", "Origin");
  });
}
