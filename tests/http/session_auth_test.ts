/** Who has signed in: every route with a session against every wrong credential. Spec section 5, rules 2 to 4. */

import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { randomBytes } from "node:crypto";
import { mintLiveKey } from "../../supabase/functions/_shared/domain/credential.ts";
import { openClaim } from "../support/claims.ts";
import { newPaidKey, newProjectToken } from "../support/factories.ts";
import {
  createForger,
  ED,
  ES384,
  type Forger,
  now,
  PS256,
  publicForms,
  publishAll,
  RSA,
  STRANGER,
  STRANGER_RSA,
} from "../support/forger.ts";
import { onOneBackend, type World } from "../support/harness.ts";
import { AUDIENCE, ISSUER } from "../support/issuer.ts";

interface Route {
  method: string;
  path: string;
  body?: unknown;
}

const ROUTES: Route[] = [
  { method: "POST", path: "/api-keys", body: { name: "agent" } },
  { method: "GET", path: "/api-keys" },
  { method: "DELETE", path: "/api-keys/3f8e1c52-7a64-4b0d-9c21-5d6e7f8091a2" },
  { method: "GET", path: "/settings" },
  { method: "PUT", path: "/settings", body: { session_lock: true } },
  { method: "POST", path: "/telemetry", body: { sync_ops: 1 } },
  { method: "GET", path: "/billing/usage" },
  { method: "GET", path: "/billing/subscription" },
  { method: "GET", path: "/account/kdf-salt" },
  { method: "GET", path: "/kdf-salt" },
  // Wrong in themselves; a stranger must not learn how.
  { method: "POST", path: "/api-keys", body: "{" },
  { method: "POST", path: "/api-keys", body: {} },
  { method: "POST", path: "/api-keys", body: "x".repeat(100_000) },
  { method: "DELETE", path: "/api-keys/not-a-uuid" },
  { method: "PUT", path: "/settings", body: { session_lock: 1 } },
  { method: "PUT", path: "/settings", body: "x".repeat(100_000) },
  { method: "POST", path: "/telemetry", body: { memory: "secret" } },
];

/** Authorization headers that are wrong by their form. */
const MALFORMED: [string, string | undefined][] = [
  ["no header", undefined],
  ["an empty header", ""],
  ["Basic", "Basic dXNlcjpwYXNzd29yZA=="],
  ["Bearer alone", "Bearer"],
  ["Bearer and blanks", "Bearer   "],
  ["two tokens", "Bearer a.b.c a.b.c"],
];

/** Credentials of agents, good or not. */
const AGENTS: [string, (world: World) => string | Promise<string>][] = [
  ["a good live key", async (world) => (await newPaidKey(world)).token],
  ["a revoked live key", newRevokedKey],
  ["a live key that nobody has", () => mintLiveKey((count) => randomBytes(count))],
  ["a live key of garbage", () => "sov_live_garbage"],
  ["a live key of nothing", () => "sov_live_"],
  ["a project token", newProjectToken],
  ["a project token of garbage", () => "sov_proj_garbage"],
];

/** Tokens of the real issuer's key with claims that do not do. */
const CLAIMS: [string, () => Record<string, unknown>][] = [
  ["that expired 31 seconds ago", () => ({ exp: now() - 31 })],
  ["that expired a year ago", () => ({ exp: now() - 31_536_000 })],
  ["that expired in 1969", () => ({ exp: -1 })],
  ["that is not valid for another minute", () => ({ nbf: now() + 60 })],
  ["whose nbf is text", () => ({ nbf: "0" })],
  ["without exp", () => ({ exp: undefined })],
  ["whose exp is text", () => ({ exp: String(now() + 600) })],
  ["whose exp is null", () => ({ exp: null })],
  ["whose exp is an array", () => ({ exp: [now() + 600] })],
  ["without sub", () => ({ sub: undefined })],
  ["with an empty sub", () => ({ sub: "" })],
  ["whose sub is a number", () => ({ sub: 42 })],
  ["whose sub is null", () => ({ sub: null })],
  ["whose sub is an object", () => ({ sub: { id: "user" } })],
  ["whose sub is an array", () => ({ sub: ["user"] })],
  ["whose sub has a NUL", () => ({ sub: "user\0admin" })],
  ["whose sub has half a surrogate pair", () => ({ sub: "user\ud800" })],
  ["whose sub has 600 characters", () => ({ sub: "x".repeat(600) })],
  ["of another issuer", () => ({ iss: "https://evil.test/auth/v1" })],
  ["of another project of the same provider", () => ({ iss: ISSUER.replace("issuer", "other-project") })],
  ["of an issuer that ours begins like", () => ({ iss: `${ISSUER}/` })],
  ["without issuer", () => ({ iss: undefined })],
  ["for another audience", () => ({ aud: "anon" })],
  ["for a list of other audiences", () => ({ aud: ["anon", "service_role"] })],
  ["without audience", () => ({ aud: undefined })],
];

/** Names of keys that the issuer does not have, on tokens of its real key. */
const KIDS: [string, string][] = [
  ["unknown", "no-such-key"],
  ["empty", ""],
  ["a path", "../../../../dev/null"],
  ["SQL", "x' union select 'secret' --"],
  ["__proto__", "__proto__"],
  ["constructor", "constructor"],
  ["100 KB", "k".repeat(100_000)],
];

/** Everything else that a forger may try. */
const FORGED: [string, (forger: Forger) => string | string[] | Promise<string | string[]>][] = [
  ["that is not a JWT", () => ["hello", ".", "..", "...", "null", "{}", "e30", "e30.e30.", "a.b.c"]],
  ["of random bytes", () => [1, 2, 3].map((count) => Array.from({ length: count }, randomPart).join("."))],
  ["of two parts", async (forger) => (await forger.token()).split(".").slice(0, 2).join(".")],
  ["of four parts", async (forger) => `${await forger.token()}.x`],
  ["of five parts", async (forger) => `${await forger.token()}.x.x`],
  ["whose header is not JSON", (forger) => forger.byHand("{")],
  ["whose header is an array", (forger) => forger.byHand([forger.header])],
  ["whose payload is not JSON", (forger) => forger.byHand(forger.header, "{")],
  ["whose payload is null", (forger) => forger.byHand(forger.header, "null")],
  ["whose payload is an array", (forger) => forger.byHand(forger.header, [forger.claims])],
  ["without alg", ({ byHand, key }) => byHand({ kid: key.kid })],
  ...["none", "None", "NONE", "nOnE", "", "es256", "ES256 ", "__proto__"].map((
    alg,
  ): typeof FORGED[number] => [
    `with alg "${alg}", with and without signatures`,
    ({ byHand, header, claims }) => {
      const signatures = [undefined, () => new Uint8Array(), () => randomBytes(64)];
      return Promise.all(signatures.map((sign) => byHand({ ...header, alg }, claims, sign)));
    },
  ]),
  [
    "signed HS256 with a public key, in any form",
    ({ key, hmac }) => Promise.all(publicForms(key).map((form) => hmac(form, 256))),
  ],
  [
    "signed HS512 with a public key, in any form",
    ({ key, hmac }) => Promise.all(publicForms(key).map((form) => hmac(form, 512))),
  ],
  ["of an unpublished key", ({ token }) => token({ key: STRANGER })],
  ["of an unpublished key without kid", ({ token }) => token({ key: STRANGER, header: { kid: undefined } })],
  [
    "of an unpublished key with a published kid",
    ({ token, key }) => token({ key: STRANGER, header: { kid: key.kid } }),
  ],
  [
    "of an unpublished RSA key with a published kid",
    ({ token }) => token({ key: STRANGER_RSA, header: { kid: RSA.kid } }),
  ],
  ["whose alg is not its key's", ({ byHand, header }) => byHand({ ...header, alg: "RS256" })],
  ["whose kid is of a key of another kind", ({ byHand, header }) => byHand({ ...header, kid: RSA.kid })],
  ["signed ES384 with a published key", ({ token }) => token({ key: ES384 })],
  ["signed PS256 with a published key", ({ token }) => token({ key: PS256 })],
  [
    "whose claims were changed after signing",
    ({ changed, claims }) => changed(1, { ...claims, sub: "other" }),
  ],
  ["whose header was changed after signing", ({ changed, header }) => changed(0, { ...header, typ: "JWT" })],
  ["without signature", ({ changed }) => changed(2, "")],
  ["with a signature of zeros", ({ changed }) => changed(2, new Uint8Array(64))],
  ["with half its signature", async ({ token }) => (await token()).slice(0, -43)],
  ["with the signature of another token", async ({ token, changed }) => {
    const other = (await token({ claims: { jti: "other" } })).split(".")[2]!;
    return await changed(2, Buffer.from(other, "base64url"));
  }],
  ["with trailing text", async ({ token }) => `${await token()}!`],
  ["with a tab in it", async ({ token }) => (await token()).replace(".", ".\t")],
  ["whose crit is unknown", ({ byHand, header }) => byHand({ ...header, crit: ["exp"], exp: 1 })],
  ["whose crit is empty", ({ byHand, header }) => byHand({ ...header, crit: [] })],
  ["whose crit is text", ({ byHand, header }) => byHand({ ...header, crit: "b64" })],
  ["whose payload is not encoded", ({ unencoded }) => unencoded()],
];

let forgeries = 0;
const held = openClaim("No forged session is taken, by any route");

onOneBackend((test) => {
  for (const [name, authorization] of MALFORMED) {
    test(`every session route answers 401 missing_or_invalid_bearer_token to ${name}`, async (world) => {
      const headers: Record<string, string> = authorization === undefined ? {} : { authorization };
      await assertRefused(world, headers, "missing_or_invalid_bearer_token");
    });
  }

  for (const [name, make] of AGENTS) {
    test(`every session route answers 401 session_jwt_required to ${name}`, async (world) => {
      await assertRefused(world, { authorization: `Bearer ${await make(world)}` }, "session_jwt_required");
    });
  }

  for (const [name, claims] of CLAIMS) {
    test(`every session route answers 401 invalid_session to a token ${name}`, async (world) => {
      await assertInvalid(world, await createForger(world.issuer).token({ claims: claims() }));
    });
  }

  for (const [name, kid] of KIDS) {
    test(`every session route answers 401 invalid_session to a token whose kid is ${name}`, async (world) => {
      await assertInvalid(world, await createForger(world.issuer).token({ header: { kid } }));
    });
  }

  for (const [name, forge] of FORGED) {
    test(`every session route answers 401 invalid_session to a token ${name}`, async (world) => {
      const forged = await forge(createForger(world.issuer));
      for (const token of [forged].flat()) await assertInvalid(world, token);
    });
  }

  for (const field of ["jwk", "jku", "x5u", "kid"]) {
    test(`every session route answers 401 invalid_session to a token whose ${field} leads to another key, and asks nowhere`, async (world) => {
      let visits = 0;
      await using server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, () => {
        visits++;
        return Response.json({ keys: [STRANGER.publicJwk] });
      });
      const value = field === "jwk" ? STRANGER.publicJwk : `http://127.0.0.1:${server.addr.port}/jwks.json`;
      for (const kid of [STRANGER.kid, world.issuer.key.kid]) {
        const header = { kid, [field]: value };
        await assertInvalid(world, await createForger(world.issuer).token({ key: STRANGER, header }));
      }
      assert.equal(visits, 0);
    });
  }

  test("a session is taken within 30 seconds of leeway, for a list of audiences and for any subject", async (world) => {
    const variants = [{ exp: now() - 15 }, { nbf: now() + 15 }, { aud: ["other", AUDIENCE] }, {
      sub: "ü".repeat(512),
    }];
    for (const claims of variants) {
      await assertTaken(world, await createForger(world.issuer).token({ claims }));
    }
  });

  test("a session of a published ES256, RS256 or EdDSA key is taken, also one made by hand", async (world) => {
    const forger = createForger(world.issuer);
    await assertTaken(world, await forger.byHand(forger.header));
    for (const key of [world.issuer.key, RSA, ED]) await assertTaken(world, await forger.token({ key }));
  });

  test("more than sixty forgeries were tried", async () => {
    assert.ok(forgeries >= 60, String(forgeries));
    held(forgeries * ROUTES.length);
  });
});

async function assertTaken(world: World, token: string): Promise<void> {
  for (const path of ["/api-keys", "/settings", "/billing/usage", "/billing/subscription", "/kdf-salt"]) {
    assert.equal((await world.request("GET", path, { token })).status, 200, path);
  }
}

async function assertInvalid(world: World, token: string): Promise<void> {
  forgeries++;
  await assertRefused(world, { authorization: `Bearer ${token}` }, "invalid_session");
}

/** Refused by every route, whatever the request is like, in the same words, and leaving nothing behind. */
async function assertRefused(world: World, headers: Record<string, string>, code: string): Promise<void> {
  publishAll(world.issuer);
  const before = await countPeople(world);
  for (const { method, path, body } of ROUTES) {
    const answer = await world.request(method, path, { headers, body });
    assert.deepEqual([answer.status, answer.body.error], [401, code], `${method} ${path}: ${answer.text}`);
    assert.equal(answer.headers.get("www-authenticate"), "Bearer");
    assert.deepEqual(Object.keys(answer.body).sort(), ["error", "request_id"]);
  }
  assert.deepEqual(await countPeople(world), before);
}

async function countPeople(world: World): Promise<unknown> {
  const { rows } = await world.sql.query(
    "select (select count(*) from app.owners) as owners, (select count(*) from app.accounts) as accounts",
  );
  return rows[0];
}

async function newRevokedKey(world: World): Promise<string> {
  const { token, keyId } = await newPaidKey(world);
  await world.sql.query("update app.api_keys set revoked_at = now() where id = $1", [keyId]);
  return token;
}

function randomPart(): string {
  return randomBytes(32).toString("base64url");
}
