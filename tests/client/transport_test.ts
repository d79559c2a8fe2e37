/** Patience: what is tried again, how long apart, and what is not. */

import assert from "node:assert/strict";
import {
  AuthError,
  NetworkError,
  RateLimitError,
  TooLargeError,
  UnavailableError,
} from "../../client/errors.ts";
import { type ServiceOptions, Transport } from "../../client/transport.ts";

/** A transport to a service that answers what it is told, one after the other, the last for ever. */
function scripted(answers: (() => Response | Promise<Response>)[], over: Partial<ServiceOptions> = {}) {
  const waits: number[] = [];
  let calls = 0;
  const transport = new Transport({
    baseUrl: "http://service.test/base/",
    token: "t",
    fetch: (url, { signal }) => {
      assert.match(url, /^http:\/\/service\.test\/base\/x$/);
      signal!.throwIfAborted();
      return Promise.resolve(answers[Math.min(calls++, answers.length - 1)]!());
    },
    sleep: (ms) => Promise.resolve(void waits.push(ms)),
    ...over,
  });
  return { waits, calls: () => calls, get: (options = {}) => transport.request("GET", "/x", options) };
}

const OK = () => Response.json({ ok: true });

function refuse(status: number, headers = {}) {
  return () => Response.json({ error: "code", request_id: "r" }, { status, headers });
}

Deno.test("transport: 5xx, 429 and network errors are tried again, with doubling and random waits", async () => {
  const away = () => Promise.reject(new TypeError("fetch failed"));
  const { get, waits, calls } = scripted([refuse(500), refuse(503), refuse(429), away, refuse(502), OK]);
  assert.deepEqual(await get(), { ok: true });
  assert.equal(calls(), 6);
  for (const [i, wait] of waits.entries()) {
    const limit = 250 * 2 ** i;
    assert.ok(wait >= limit / 2 && wait <= limit, `wait ${i} is ${wait}`);
  }
});

Deno.test("transport: after six tries it gives up with the last answer", async () => {
  const cases = [[refuse(503), UnavailableError], [refuse(429), RateLimitError]] as const;
  for (const [answer, kind] of cases) {
    const { get, calls, waits } = scripted([answer]);
    await assert.rejects(get(), kind);
    assert.equal(calls(), 6);
    assert.ok(Math.max(...waits) <= 8_000);
  }
});

Deno.test("transport: a 4xx is never tried again", async () => {
  for (
    const [status, kind] of [[400, Error], [401, AuthError], [408, Error], [413, TooLargeError]] as const
  ) {
    const { get, calls } = scripted([refuse(status)]);
    await assert.rejects(get(), kind);
    assert.equal(calls(), 1);
  }
});

Deno.test("transport: Retry-After makes the wait longer; more than a minute is the caller's to wait", async () => {
  const { get, waits } = scripted([refuse(503, { "retry-after": "7" }), OK]);
  await get();
  assert.ok(waits[0]! >= 7_000 && waits[0]! <= 7_250);
  const long = scripted([refuse(429, { "retry-after": "3600" }), OK]);
  await assert.rejects(long.get(), (error: RateLimitError) => error.retryAfterMs === 3_600_000);
  assert.equal(long.calls(), 1);
});

Deno.test("transport: what is not safe to repeat is repeated only when it was turned away", async () => {
  const once = scripted([refuse(503), OK]);
  await assert.rejects(once.get({ once: true }), UnavailableError);
  assert.equal(once.calls(), 1);
  const turnedAway = scripted([refuse(429), OK]);
  assert.deepEqual(await turnedAway.get({ once: true }), { ok: true });
});

Deno.test("transport: an answer that breaks off, or is no JSON, counts as none", async () => {
  const cut = () =>
    new Response(
      new ReadableStream({
        start(controller) {
          controller.enqueue(new TextEncoder().encode('{"ok":'));
          controller.error(new TypeError("connection reset"));
        },
      }),
    );
  assert.deepEqual(await scripted([cut, () => new Response("<html>"), OK]).get(), { ok: true });
  await assert.rejects(scripted([cut]).get(), NetworkError);
});

Deno.test("transport: a signal ends it at once, also while it waits", async () => {
  const stopped = new AbortController();
  const { get, calls } = scripted([refuse(503)], {
    sleep: () => {
      stopped.abort();
      return Promise.resolve();
    },
  });
  await assert.rejects(get({ signal: stopped.signal }), { name: "AbortError" });
  assert.equal(calls(), 1);
});

Deno.test("transport: a try that takes too long is ended, and tried again", async () => {
  let calls = 0;
  const transport = new Transport({
    baseUrl: "http://service.test",
    token: () => Promise.resolve("asked for each time"),
    timeoutMs: 20,
    sleep: () => Promise.resolve(),
    fetch: (_, { signal, headers }) => {
      assert.equal((headers as Record<string, string>).authorization, "Bearer asked for each time");
      if (++calls === 2) return Promise.resolve(OK());
      return new Promise((_, reject) => signal!.addEventListener("abort", () => reject(signal!.reason)));
    },
  });
  // AbortSignal.timeout() does not keep the process alive.
  const alive = setInterval(() => {}, 1_000);
  assert.deepEqual(await transport.request("GET", "/x"), { ok: true });
  clearInterval(alive);
});
