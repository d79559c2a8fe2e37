/** The guard before requests to other people's addresses: what it looks up, what it lets through, what it passes on. */

import assert from "node:assert/strict";
import {
  type GuardedAnswer,
  openGuardedFetch,
  type Resolve,
} from "../../supabase/functions/_shared/platform/guarded_fetch.ts";
import {
  openWebhookSender,
  readRetryAfter,
} from "../../supabase/functions/_shared/platform/webhook_sender.ts";

const URL_TO = "https://hooks.example.com/in";
const PUBLIC_V4 = "93.184.216.34";
const PUBLIC_V6 = "2606:2800:220:1:248:1893:25c8:1946";

/** A resolver that answers from a table; a type that is not in it has no record. */
function answering(records: Partial<Record<"A" | "AAAA", string[] | Error>>): Resolve {
  return (_name, type) => {
    const answer = records[type] ?? new Deno.errors.NotFound();
    return answer instanceof Error ? Promise.reject(answer) : Promise.resolve(answer);
  };
}

/** A guard whose requests, once let through, are counted and answered with 204. */
function guarding(resolve: Resolve) {
  const sent: { url: string; init: RequestInit }[] = [];
  const guarded = openGuardedFetch({
    allowPrivate: false,
    resolve,
    fetch: (url, init) => {
      sent.push({ url, init });
      return Promise.resolve(new Response(null, { status: 204 }));
    },
  });
  return { guarded, sent };
}

const VERDICTS: [what: string, records: Parameters<typeof answering>[0], fault: string | undefined][] = [
  ["a public IPv4 address", { A: [PUBLIC_V4] }, undefined],
  ["a public IPv6 address", { AAAA: [PUBLIC_V6] }, undefined],
  ["public addresses of both kinds", { A: [PUBLIC_V4], AAAA: [PUBLIC_V6] }, undefined],
  ["no address", {}, "not_resolved"],
  ["empty answers", { A: [], AAAA: [] }, "not_resolved"],
  ["loopback", { A: ["127.0.0.1"] }, "address_not_public"],
  ["loopback of IPv6", { AAAA: ["::1"] }, "address_not_public"],
  ["the metadata address", { A: ["169.254.169.254"] }, "address_not_public"],
  ["a private address among public ones", { A: [PUBLIC_V4, "10.0.0.1"] }, "address_not_public"],
  ["a public IPv4 and a private IPv6 address", { A: [PUBLIC_V4], AAAA: ["fd00::1"] }, "address_not_public"],
  ["a private IPv4 and a public IPv6 address", { A: ["10.0.0.1"], AAAA: [PUBLIC_V6] }, "address_not_public"],
  ["a mapped address", { AAAA: ["::ffff:10.0.0.1"] }, "address_not_public"],
  ["something that is no address", { A: ["elsewhere.example.com"] }, "address_not_public"],
  ["a server that fails for IPv4", { A: new Error("SERVFAIL"), AAAA: [PUBLIC_V6] }, "not_resolved"],
  ["a server that fails for IPv6", { A: [PUBLIC_V4], AAAA: new Error("SERVFAIL") }, "not_resolved"],
  ["a lookup that takes too long", { A: new DOMException("", "TimeoutError") }, "not_resolved"],
];

for (const [what, records, fault] of VERDICTS) {
  Deno.test(`a name with ${what} is ${fault === undefined ? "let through" : "refused"}`, async () => {
    const { guarded, sent } = guarding(answering(records));
    assert.equal(await guarded.findFault(URL_TO), fault);
    const answer = await guarded.post(URL_TO, {}, "{}");
    assert.equal(answer.fault, fault ?? null);
    assert.equal(sent.length, fault === undefined ? 1 : 0);
  });
}

Deno.test("a name that changes its address between registration and sending is refused at sending", async () => {
  let address = PUBLIC_V4;
  const { guarded, sent } = guarding((_name, type) =>
    type === "A" ? Promise.resolve([address]) : Promise.reject(new Deno.errors.NotFound())
  );
  assert.equal(await guarded.findFault(URL_TO), undefined);
  assert.equal((await guarded.post(URL_TO, {}, "{}")).status, 204);
  address = "169.254.169.254";
  assert.deepEqual(await guarded.post(URL_TO, {}, "{}"), {
    status: null,
    fault: "address_not_public",
    retryAfter: null,
  });
  assert.equal(sent.length, 1);
});

Deno.test("a URL that is refused as it stands is not even looked up", async () => {
  const asked: string[] = [];
  const { guarded, sent } = guarding((name) => {
    asked.push(name);
    return Promise.resolve([PUBLIC_V4]);
  });
  for (const url of ["http://hooks.example.com/", "https://127.0.0.1/", "https://localhost/", "nothing"]) {
    assert.notEqual(await guarded.findFault(url), undefined);
    assert.equal((await guarded.post(url, {}, "{}")).status, null);
  }
  assert.deepEqual([asked, sent], [[], []]);
});

Deno.test("nothing that is sent may be redirected", async () => {
  const { guarded, sent } = guarding(answering({ A: [PUBLIC_V4] }));
  await guarded.post(URL_TO, { "x-a": "b" }, "body");
  const [{ url, init }] = sent as [typeof sent[0]];
  assert.deepEqual([url, init.method, init.redirect, init.body], [URL_TO, "POST", "manual", "body"]);
});

Deno.test("what is fetched is guarded like what is sent, is not redirected, and is bounded", async () => {
  const inside = guarding(answering({ A: ["10.0.0.1"] }));
  assert.deepEqual(await inside.guarded.get(URL_TO, {}, 10), { bytes: null, fault: "address_not_public" });
  assert.deepEqual(await inside.guarded.get("http://a.example.com/", {}, 10), {
    bytes: null,
    fault: "not_https",
  });
  assert.equal(inside.sent.length, 0);
  let body: BodyInit | null = "0123456789";
  let status = 200;
  const guarded = openGuardedFetch({
    allowPrivate: false,
    resolve: answering({ A: [PUBLIC_V4] }),
    fetch: (_url, init) => {
      assert.deepEqual([init.method, init.redirect], ["GET", "manual"]);
      return status === 0
        ? Promise.reject(new TypeError("down"))
        : Promise.resolve(new Response(body, { status }));
    },
  });
  assert.equal((await guarded.get(URL_TO, {}, 10)).bytes?.length, 10);
  assert.deepEqual(await guarded.get(URL_TO, {}, 9), { bytes: null, fault: "too_large" });
  body = new ReadableStream({ pull: (controller) => controller.enqueue(new Uint8Array(65_536)) });
  assert.deepEqual(
    await guarded.get(URL_TO, {}, 100_000),
    { bytes: null, fault: "too_large" },
    "without an end",
  );
  [body, status] = [null, 302];
  assert.deepEqual(await guarded.get(URL_TO, {}, 10), { bytes: null, fault: "http_302" });
  status = 0;
  assert.deepEqual(await guarded.get(URL_TO, {}, 10), { bytes: null, fault: "unreachable" });
});

Deno.test("by default names are asked of the real DNS, and one that cannot exist is refused", async () => {
  const guarded = openGuardedFetch({ allowPrivate: false });
  assert.equal(await guarded.findFault("https://no-such-name.nowhere-at-all.com/"), "not_resolved");
});

/** Posts to a local server that answers as told. */
async function postTo(
  answer: (request: Request) => Response | Promise<Response>,
  timeoutMs?: number,
): Promise<GuardedAnswer> {
  const abort = new AbortController();
  const server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, signal: abort.signal, onListen() {}, onError: () => new Response() },
    answer,
  );
  const guarded = openGuardedFetch({ allowPrivate: true, ...(timeoutMs === undefined ? {} : { timeoutMs }) });
  try {
    return await guarded.post(`http://127.0.0.1:${server.addr.port}/`, {}, "{}");
  } finally {
    abort.abort();
    await server.finished;
  }
}

function testServer(name: string, fn: () => Promise<void>): void {
  Deno.test({ name, sanitizeOps: false, sanitizeResources: false, fn });
}

testServer("a redirect is answered as one and not followed", async () => {
  let asked = 0;
  const answer = await postTo(() => {
    asked++;
    return new Response(null, { status: 307, headers: { location: "/elsewhere" } });
  });
  assert.deepEqual([answer.status, asked], [307, 1]);
});

testServer("an endless answer is read to its limit and hung up on", async () => {
  let produced = 0;
  const answer = await postTo(() =>
    new Response(
      new ReadableStream({
        pull(controller) {
          produced += 16_384;
          controller.enqueue(new Uint8Array(16_384));
        },
      }),
    )
  );
  assert.equal(answer.status, 200);
  assert.ok(produced < 64 * 1024 * 1024, `${produced} bytes were taken`);
});

testServer("an endpoint that never answers is given up after the time limit", async () => {
  const { promise, resolve } = Promise.withResolvers<Response>();
  const answer = await postTo(() => promise, 200);
  resolve(new Response());
  assert.deepEqual(answer, { status: null, fault: "timeout", retryAfter: null });
});

testServer("a body that never ends does not make a failure of what was taken", async () => {
  const answer = await postTo(
    () => new Response(new ReadableStream({ pull: () => new Promise(() => {}) })),
    300,
  );
  assert.equal(answer.status, 200);
});

testServer("nothing listening is unreachable, and no word of why is passed on", async () => {
  const guarded = openGuardedFetch({ allowPrivate: true });
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  listener.close();
  const answer = await guarded.post(`http://127.0.0.1:${(listener.addr as Deno.NetAddr).port}/`, {}, "{}");
  assert.deepEqual(answer, { status: null, fault: "unreachable", retryAfter: null });
});

Deno.test("the sender says what a refusal was by a code alone", async () => {
  const sender = openWebhookSender({ allowPrivate: false, resolve: answering({ A: ["10.0.0.1"] }) });
  const secrets = [`whsec_${btoa("x".repeat(32))}`];
  const answer = await sender.send({ id: crypto.randomUUID(), url: URL_TO, payload: "{}", secrets });
  assert.deepEqual(answer, { status: null, error: "address_not_public", retryAfterSeconds: null });
});

Deno.test("Retry-After is read in both of its forms, and bounded by a day", () => {
  const now = new Date("2026-11-20T12:00:00.000Z");
  const cases: [string | null, number | null][] = [
    [null, null],
    ["120", 120],
    [" 7 ", 7],
    ["0", 0],
    ["99999999999999", 86_400],
    ["Fri, 20 Nov 2026 12:01:30 GMT", 90],
    ["Fri, 20 Nov 2026 11:00:00 GMT", 0],
    ["Fri, 20 Nov 2099 11:00:00 GMT", 86_400],
    ["soon", null],
    ["", null],
  ];
  for (const [header, seconds] of cases) assert.equal(readRetryAfter(header, now), seconds, String(header));
});
