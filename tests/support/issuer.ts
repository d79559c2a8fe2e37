/** An identity provider for tests: real keys, a real JWKS over HTTP, and every way in which it can misbehave. */

import { exportJWK, generateKeyPair, type JWK, SignJWT } from "jose";
import type { SessionSettings } from "../../supabase/functions/_shared/env.ts";

export const ISSUER = "https://issuer.test/auth/v1";
export const AUDIENCE = "authenticated";

/** A signing key, published or not. */
export interface TestKey {
  kid: string;
  alg: string;
  privateKey: Awaited<ReturnType<typeof generateKeyPair>>["privateKey"];
  publicJwk: JWK;
}

/** How a token differs from a good one. */
export interface TokenOptions {
  key?: TestKey;
  claims?: Record<string, unknown>;
  header?: Record<string, unknown>;
}

/** The running issuer. */
export interface TestIssuer {
  settings: SessionSettings;
  /** The key that signs by default. */
  key: TestKey;
  /** What the JWKS publishes. */
  published: TestKey[];
  /** Set to answer otherwise than with the keys: an outage. */
  outage: (() => Response | Promise<Response>) | undefined;
  /** Requests for the JWKS so far. */
  fetches: number;
  /** A session of a subject; a claim of undefined is left out. */
  token(subject: unknown, options?: TokenOptions): Promise<string>;
  stop(): Promise<void>;
}

/** Makes a key pair. */
export async function newKey(alg = "ES256", kid: string = crypto.randomUUID()): Promise<TestKey> {
  const { privateKey, publicKey } = await generateKeyPair(alg, { extractable: true });
  return { kid, alg, privateKey, publicJwk: { ...await exportJWK(publicKey), kid, alg, use: "sig" } };
}

/** Starts an issuer with one ES256 key. */
export async function startIssuer(): Promise<TestIssuer> {
  const key = await newKey();
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async () => {
    issuer.fetches++;
    if (issuer.outage !== undefined) return await issuer.outage();
    return Response.json({ keys: issuer.published.map((each) => each.publicJwk) });
  });
  const jwksUrl = `http://127.0.0.1:${server.addr.port}/.well-known/jwks.json`;
  const issuer: TestIssuer = {
    settings: { jwksUrl, issuer: ISSUER, audience: AUDIENCE },
    key,
    published: [key],
    outage: undefined,
    fetches: 0,
    token: (subject, options) => sign(subject, { key: issuer.key, ...options }),
    stop: () => server.shutdown(),
  };
  return issuer;
}

async function sign(subject: unknown, { key, claims = {}, header = {} }: TokenOptions): Promise<string> {
  const now = Math.floor(Date.now() / 1000);
  const all = { sub: subject, iss: ISSUER, aud: AUDIENCE, iat: now, exp: now + 600, ...claims };
  const present = Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined));
  return await new SignJWT(present)
    .setProtectedHeader({ alg: key!.alg, kid: key!.kid, ...header })
    .sign(key!.privateKey);
}
