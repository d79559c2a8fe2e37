/** Sessions against a real JWKS server that rotates its keys, fails, lies and is slow. Spec section 5, rule 4. */

import assert from "node:assert/strict";
import { ApiError } from "../../supabase/functions/_shared/errors.ts";
import {
  createSessionVerifier,
  type KeyTimes,
} from "../../supabase/functions/_shared/platform/session_verifier.ts";
import { eventually } from "../support/eventually.ts";
import { AUDIENCE, ISSUER, newKey, startIssuer, type TestIssuer } from "../support/issuer.ts";

/** Asks again at once, and refreshes never. */
const EAGER: KeyTimes = { cooldownMs: 0, refreshMs: 3_600_000, pauseMs: 0 };
/** Never asks again. */
const PATIENT: KeyTimes = { cooldownMs: 3_600_000, refreshMs: 3_600_000, pauseMs: 0 };

/** Answers that are no keys. */
const OUTAGES: [string, () => Response][] = [
  ["answers 500", () => new Response("oops", { status: 500 })],
  ["answers 404", () => new Response("gone", { status: 404 })],
  ["redirects", () => Response.redirect("http://127.0.0.1:1/")],
  ["answers with a page of HTML", () => new Response("<!doctype html><p>Maintenance")],
  ["answers with JSON that is no key set", () => Response.json({ keys: "soon" })],
  ["answers with JSON null", () => Response.json(null)],
  ["answers with 10 MB of nothing", () => new Response(new Uint8Array(10_000_000))],
  ["breaks off in the middle", () => new Response('{"keys": [{"kty": "EC", ')],
];

test("the keys are fetched once, however many tokens there are", async (issuer) => {
  const verifier = createSessionVerifier(issuer.settings);
  for (let i = 0; i < 100; i++) {
    const token = await issuer.token(`user-${i}`, { claims: { email: `${i}@example.test` } });
    assert.deepEqual(await verifier.verify(token), { subject: `user-${i}`, email: `${i}@example.test` });
  }
  assert.equal(issuer.fetches, 1);
});

test("fifty first verifications at once share one fetch", async (issuer) => {
  const verifier = createSessionVerifier(issuer.settings);
  const subjects = Array.from({ length: 50 }, (_, i) => `user-${i}`);
  const tokens = await Promise.all(subjects.map((subject) => issuer.token(subject)));
  const sessions = await Promise.all(tokens.map((token) => verifier.verify(token)));
  assert.deepEqual(sessions.map((session) => session.subject), subjects);
  assert.equal(issuer.fetches, 1);
});

test("an e-mail that cannot be one is left out, and the session stands", async (issuer) => {
  const verifier = createSessionVerifier(issuer.settings);
  for (
    const email of [undefined, null, "", 42, ["a@b.test"], "a\0@b.test", "x".repeat(321), "\ud800@b.test"]
  ) {
    const session = await verifier.verify(await issuer.token("user", { claims: { email } }));
    assert.deepEqual(session, { subject: "user", email: null }, JSON.stringify(email));
  }
});

test("a session of single sign-on says by which provider it came, others say nothing of it", async (issuer) => {
  const verifier = createSessionVerifier(issuer.settings);
  const id = crypto.randomUUID();
  const claims = { email: "a@b.test", app_metadata: { provider: `sso:${id}`, providers: [`sso:${id}`] } };
  const verify = async (over: Record<string, unknown>) =>
    await verifier.verify(await issuer.token("user", { claims: { ...claims, ...over } }));
  assert.deepEqual(await verify({}), { subject: "user", email: "a@b.test", ssoProvider: id });
  assert.deepEqual(await verify({ amr: [{ method: "sso/saml", provider: crypto.randomUUID() }] }), {
    subject: "user",
    email: "a@b.test",
    ssoProvider: null,
  });
  for (const app_metadata of [undefined, { provider: "email", providers: ["email", "google"] }]) {
    assert.deepEqual(await verify({ app_metadata }), { subject: "user", email: "a@b.test" });
  }
});

test("a new key works without a restart, beside the old one while that is published", async (issuer) => {
  const verifier = createSessionVerifier(issuer.settings, {
    cooldownMs: 100,
    refreshMs: 3_600_000,
    pauseMs: 0,
  });
  await verifier.verify(await issuer.token("user"));
  for (const alg of ["ES256", "RS256", "EdDSA"]) {
    const key = await newKey(alg);
    const token = await issuer.token("user", { key });
    assert.equal(await codeOf(verifier.verify(token)), "invalid_session");
    issuer.published.push(key);
    await eventually(`the new ${alg} key works`, async () => await codeOf(verifier.verify(token)) === null);
    assert.equal(await codeOf(verifier.verify(await issuer.token("user"))), null);
  }
});

test("a withdrawn key stops working once the keys were refreshed, and the others go on", async (issuer) => {
  const verifier = createSessionVerifier(issuer.settings, {
    cooldownMs: 3_600_000,
    refreshMs: 50,
    pauseMs: 0,
  });
  const [old, next] = [issuer.key, await newKey()];
  issuer.published.push(next);
  const oldToken = await issuer.token("user", { key: old });
  const nextToken = await issuer.token("user", { key: next });
  assert.deepEqual([await codeOf(verifier.verify(oldToken)), await codeOf(verifier.verify(nextToken))], [
    null,
    null,
  ]);
  issuer.published = [next];
  await eventually("the withdrawn key is refused", async () => {
    assert.equal(await codeOf(verifier.verify(nextToken)), null);
    return await codeOf(verifier.verify(oldToken)) === "invalid_session";
  });
  assert.equal(await codeOf(verifier.verify(oldToken)), "invalid_session");
});

test("a key that was withdrawn while nobody asked is refused at its first use", async (issuer) => {
  const verifier = createSessionVerifier(issuer.settings, { ...PATIENT, refreshMs: 20 });
  const oldToken = await issuer.token("user");
  assert.equal(await codeOf(verifier.verify(oldToken)), null);
  issuer.published = [await newKey()];
  const idleUntil = Date.now() + 60;
  await eventually("nobody asked for long", async () => Date.now() > idleUntil);
  assert.equal(await codeOf(verifier.verify(oldToken)), "invalid_session");
});

test("an issuer that fails is asked once a pause, and again after it", async (issuer) => {
  const verifier = createSessionVerifier(issuer.settings, { ...EAGER, pauseMs: 200 });
  issuer.outage = () => new Response("oops", { status: 500 });
  for (let i = 0; i < 100; i++) {
    assert.equal(await codeOf(verifier.verify(await forge(issuer))), "service_unavailable");
  }
  assert.ok(issuer.fetches <= 20, `${issuer.fetches} fetches`);
  issuer.outage = undefined;
  const token = await issuer.token("user");
  await eventually("it is asked again", async () => await codeOf(verifier.verify(token)) === null);
});

test("a thousand unknown keys do not cause one fetch more", async (issuer) => {
  const verifier = createSessionVerifier(issuer.settings, PATIENT);
  const forged = await Promise.all(Array.from({ length: 1_000 }, () => forge(issuer)));
  const codes = await Promise.all(forged.slice(0, 500).map((token) => codeOf(verifier.verify(token))));
  for (const token of forged.slice(500)) codes.push(await codeOf(verifier.verify(token)));
  assert.deepEqual(new Set(codes), new Set(["invalid_session"]));
  assert.equal(await codeOf(verifier.verify(await issuer.token("user"))), null);
  assert.equal(issuer.fetches, 1);
});

test("unknown keys cause one fetch in each cool-down at the most", async (issuer) => {
  const cooldownMs = 100;
  const verifier = createSessionVerifier(issuer.settings, { ...PATIENT, cooldownMs });
  const forged = await forge(issuer);
  const startedAt = performance.now();
  await eventually("four fetches", async () => {
    const codes = await Promise.all(Array.from({ length: 50 }, () => codeOf(verifier.verify(forged))));
    assert.deepEqual(new Set(codes), new Set(["invalid_session"]));
    return issuer.fetches >= 4;
  });
  assert.ok(issuer.fetches <= 1 + (performance.now() - startedAt) / (cooldownMs - 1), `${issuer.fetches}`);
});

for (const [name, answer] of OUTAGES) {
  test(`an issuer that ${name} is 503 for keys not yet known and nothing else, until it is back`, async (issuer) => {
    await assertOutage(issuer, {
      begin: () => Promise.resolve(issuer.outage = answer),
      end: () => Promise.resolve(issuer.outage = undefined),
    });
  });
}

test("an issuer that refuses connections is 503 for keys not yet known and nothing else, until it is back", async (issuer) => {
  const port = Number(new URL(issuer.settings.jwksUrl).port);
  let restarted: Deno.HttpServer | undefined;
  await assertOutage(issuer, {
    begin: () => issuer.stop(),
    end: () => {
      const keys = () => Response.json({ keys: issuer.published.map((key) => key.publicJwk) });
      restarted = Deno.serve({ hostname: "127.0.0.1", port, onListen() {} }, keys);
      return Promise.resolve();
    },
  });
  await restarted?.shutdown();
});

test("an issuer that does not answer is 503 after five seconds for keys not yet known and nothing else", async (issuer) => {
  const warm = createSessionVerifier(issuer.settings, EAGER);
  const known = await issuer.token("user");
  assert.equal(await codeOf(warm.verify(known)), null);
  const { promise: answered, resolve: answer } = Promise.withResolvers<Response>();
  issuer.outage = async () => (await answered).clone();
  try {
    const startedAt = performance.now();
    const waiting = [
      createSessionVerifier(issuer.settings, EAGER).verify(known),
      warm.verify(await issuer.token("user", { key: await newKey() })),
    ].map(codeOf);
    assert.equal(await codeOf(warm.verify(known)), null);
    assert.ok(performance.now() - startedAt < 4_000, "a known key waited for the issuer");
    assert.deepEqual(await Promise.all(waiting), ["service_unavailable", "service_unavailable"]);
    const waited = performance.now() - startedAt;
    assert.ok(waited > 4_900 && waited < 15_000, `${waited} ms`);
  } finally {
    answer(new Response("late"));
  }
});

test("a refresh that fails costs nobody their session, and is made up for", async (issuer) => {
  const verifier = createSessionVerifier(issuer.settings, {
    cooldownMs: 3_600_000,
    refreshMs: 50,
    pauseMs: 0,
  });
  const token = await issuer.token("user");
  assert.equal(await codeOf(verifier.verify(token)), null);
  issuer.outage = () => new Response(null, { status: 503 });
  const failedUntil = issuer.fetches + 3;
  await eventually("three refreshes failed", async () => {
    assert.equal(await codeOf(verifier.verify(token)), null);
    return issuer.fetches >= failedUntil;
  });
  const next = await newKey();
  issuer.published = [next];
  issuer.outage = undefined;
  await eventually("the old key is refused", async () => await codeOf(verifier.verify(token)) !== null);
  assert.equal(await codeOf(verifier.verify(await issuer.token("user", { key: next }))), null);
});

test("keys that cannot be used do not spoil those that can", async (issuer) => {
  const good = issuer.key.publicJwk;
  const unusable = [{}, { kty: "oct", k: "c2VjcmV0", kid: "shared" }, { kty: "EC", kid: "x" }, {
    kty: "XYZ",
  }];
  issuer.outage = () => Response.json({ keys: [...unusable, good, { ...good, kid: "enc", use: "enc" }] });
  const verifier = createSessionVerifier(issuer.settings, PATIENT);
  assert.equal(await codeOf(verifier.verify(await issuer.token("user"))), null);
  for (const kid of ["shared", "enc", "toString"]) {
    const token = await issuer.token("user", { header: { kid } });
    assert.equal(await codeOf(verifier.verify(token)), "invalid_session", kid);
  }
});

test("issuer and audience are pinned only where they are configured", async (issuer) => {
  const { jwksUrl } = issuer.settings;
  const stranger = await issuer.token("user", { claims: { iss: "https://other.test", aud: "other" } });
  const pinned = [
    { jwksUrl, issuer: ISSUER, audience: undefined },
    { jwksUrl, issuer: undefined, audience: AUDIENCE },
  ];
  for (const settings of pinned) {
    assert.equal(await codeOf(createSessionVerifier(settings).verify(stranger)), "invalid_session");
  }
  const open = createSessionVerifier({ jwksUrl, issuer: undefined, audience: undefined });
  assert.equal(await codeOf(open.verify(stranger)), null);
});

Deno.test("without an issuer every token is 503 service_unavailable", async () => {
  const verifier = createSessionVerifier(undefined);
  for (const token of ["", "hello", "a.b.c"]) {
    assert.equal(await codeOf(verifier.verify(token)), "service_unavailable");
  }
});

/** Defines a test with an issuer of its own. Sanitizers are off: connections are kept alive beyond a test. */
function test(name: string, run: (issuer: TestIssuer) => Promise<void>): void {
  Deno.test({
    name,
    sanitizeOps: false,
    sanitizeResources: false,
    fn: async () => {
      const issuer = await startIssuer();
      try {
        await run(issuer);
      } finally {
        await issuer.stop();
      }
    },
  });
}

async function assertOutage(
  issuer: TestIssuer,
  outage: { begin(): Promise<unknown>; end(): Promise<unknown> },
): Promise<void> {
  const [warm, cold] = [
    createSessionVerifier(issuer.settings, EAGER),
    createSessionVerifier(issuer.settings, EAGER),
  ];
  const next = await newKey();
  const [known, unknown] = [await issuer.token("user"), await issuer.token("user", { key: next })];
  assert.equal(await codeOf(warm.verify(known)), null);
  await outage.begin();
  for (let i = 0; i < 3; i++) {
    assert.equal(await codeOf(cold.verify(known)), "service_unavailable");
    assert.equal(await codeOf(warm.verify(unknown)), "service_unavailable");
    assert.equal(await codeOf(warm.verify(known)), null);
    // What is wrong whoever signed it needs no keys.
    assert.equal(await codeOf(cold.verify("hello")), "invalid_session");
  }
  issuer.published.push(next);
  await outage.end();
  for (const verifier of [warm, cold]) {
    for (const token of [known, unknown]) assert.equal(await codeOf(verifier.verify(token)), null);
  }
}

/** The code that a verification is refused with; null when it is not. */
async function codeOf(verification: Promise<unknown>): Promise<string | null> {
  try {
    await verification;
    return null;
  } catch (error) {
    assert.ok(error instanceof ApiError, String(error));
    return error.code;
  }
}

function forge(issuer: TestIssuer): Promise<string> {
  return issuer.token("user", { header: { kid: crypto.randomUUID() } });
}
