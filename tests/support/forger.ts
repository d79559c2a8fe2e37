/** Session tokens that are wrong in one way each, made with real keys, by `jose` or by hand. */

import { Buffer } from "node:buffer";
import { createHmac, createPublicKey } from "node:crypto";
import { AUDIENCE, ISSUER, newKey, type TestIssuer, type TestKey, type TokenOptions } from "./issuer.ts";

/** Keys that {@link publishAll} publishes beside the issuer's own. We do not take the last two algorithms. */
export const [RSA, ED, ES384, PS256] = [
  await newKey("RS256"),
  await newKey("EdDSA"),
  await newKey("ES384"),
  await newKey("PS256"),
];
/** What nobody published. */
export const STRANGER = await newKey("ES256");
export const STRANGER_RSA = await newKey("RS256");

type Sign = (input: Uint8Array<ArrayBuffer>) => Uint8Array | Promise<Uint8Array>;

/** Makes tokens of one subject. */
export interface Forger {
  /** The issuer's own key. */
  key: TestKey;
  header: Record<string, unknown>;
  claims: Record<string, unknown>;
  /** A good token, but for what the options change. */
  token(options?: TokenOptions): Promise<string>;
  /** A good token of which one of the three parts was replaced afterwards. */
  changed(part: 0 | 1 | 2, value: unknown): Promise<string>;
  /** By hand: text is taken as it is, anything else as JSON; signed with the issuer's key unless told otherwise. */
  byHand(header: unknown, payload?: unknown, sign?: Sign): Promise<string>;
  /** Signed with a shared secret. */
  hmac(secret: string | Uint8Array, bits: 256 | 512): Promise<string>;
  /** RFC 7797: a good signature over the payload as it is, which a JWT must not have. */
  unencoded(): Promise<string>;
}

/** Before the first token is verified: the verifier asks for keys once. */
export function publishAll(issuer: TestIssuer): void {
  if (issuer.published.length === 1) issuer.published.push(RSA, ED, ES384, PS256);
}

/** A forger who knows everything about an issuer, and uses its key at most for tokens that are wrong otherwise. */
export function createForger(issuer: TestIssuer, subject = `user-${crypto.randomUUID()}`): Forger {
  publishAll(issuer);
  const { key } = issuer;
  const header = { alg: key.alg, kid: key.kid };
  const claims = { sub: subject, iss: ISSUER, aud: AUDIENCE, iat: now(), exp: now() + 600 };
  const signed: Sign = async (input) => {
    const algorithm = { name: "ECDSA", hash: "SHA-256" };
    return new Uint8Array(await crypto.subtle.sign(algorithm, key.privateKey as CryptoKey, input));
  };
  async function byHand(header: unknown, payload: unknown = claims, sign = signed): Promise<string> {
    const input = `${encode(header)}.${encode(payload)}`;
    return `${input}.${encode(await sign(new TextEncoder().encode(input)))}`;
  }
  return {
    key,
    header,
    claims,
    byHand,
    token: (options) => issuer.token(subject, options),
    changed: async (part, value) =>
      (await issuer.token(subject)).split(".").with(part, encode(value)).join("."),
    hmac: (secret, bits) =>
      byHand(
        { ...header, alg: `HS${bits}` },
        claims,
        (input) => createHmac(`sha${bits}`, secret).update(input).digest(),
      ),
    unencoded: () => {
      const special = { ...header, b64: false, crit: ["b64"] };
      const input = new TextEncoder().encode(`${encode(special)}.${JSON.stringify(claims)}`);
      return byHand(special, claims, () => signed(input));
    },
  };
}

/** A public key in every form that a confused verifier may take for a shared secret. */
export function publicForms({ publicJwk }: TestKey): (string | Uint8Array)[] {
  const pem = String(
    createPublicKey({ key: publicJwk as JsonWebKey, format: "jwk" }).export({ type: "spki", format: "pem" }),
  );
  const point = ["x", "y"].map((field) => Buffer.from(String(publicJwk[field as "x" | "y"]), "base64url"));
  const { kty, crv, x, y } = publicJwk;
  const jwks = [publicJwk, { kty, crv, x, y }, { crv, kty, x, y }].map((jwk) => JSON.stringify(jwk));
  return [...jwks, pem, pem.trim(), Buffer.concat([Uint8Array.of(4), ...point]), Buffer.concat(point), ""];
}

/** Seconds since 1970, as JWTs count. */
export function now(): number {
  return Math.floor(Date.now() / 1000);
}

function encode(part: unknown): string {
  if (part instanceof Uint8Array) return Buffer.from(part).toString("base64url");
  return Buffer.from(typeof part === "string" ? part : JSON.stringify(part)).toString("base64url");
}
