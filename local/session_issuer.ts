/** The session issuer of the local stack: it stands in for Supabase Auth, with one key kept in DATA_DIR. */

import { join } from "node:path";
import { calculateJwkThumbprint, exportJWK, generateKeyPair, importJWK, type JWK, SignJWT } from "jose";
import { createFileAtomically, readTextIfExists } from "./files.ts";

/**
 * The `iss` of local sessions unless SESSION_ISSUER says otherwise. It is a name, not an address: it carries no
 * port, so that a session goes on working when the stack comes back on another one.
 */
export const LOCAL_ISSUER = "http://127.0.0.1/auth/v1";

/** The `aud` of local sessions, as Supabase Auth has it. */
export const LOCAL_AUDIENCE = "authenticated";

/** Whom a session is for. */
export interface SessionClaims {
  sub: string;
  email?: string;
  /** A time span as jose reads it. */
  expiresIn?: string;
  issuer?: string;
  audience?: string;
}

/** Makes sessions, and publishes the key that verifies them. */
export interface SessionIssuer {
  jwks(): { keys: JWK[] };
  issueSession(claims: SessionClaims): Promise<string>;
}

/** Opens the issuer of this data directory; its key is made at the first use. */
export async function openSessionIssuer(dataDir: string): Promise<SessionIssuer> {
  const key = await readOrMakeKey(join(dataDir, "session_key.json"));
  const { d: _secret, ...open } = key;
  const signer = await importJWK(key, "ES256");
  return {
    jwks: () => ({ keys: [open] }),
    issueSession({ sub, email, expiresIn = "12h", issuer = LOCAL_ISSUER, audience = LOCAL_AUDIENCE }) {
      const claims = { role: "authenticated", ...(email === undefined ? {} : { email }) };
      return new SignJWT(claims)
        .setProtectedHeader({ alg: "ES256", kid: key.kid!, typ: "JWT" })
        .setSubject(sub).setIssuer(issuer).setAudience(audience)
        .setIssuedAt().setExpirationTime(expiresIn)
        .sign(signer);
    },
  };
}

async function readOrMakeKey(path: string): Promise<JWK> {
  const kept = await readTextIfExists(path);
  if (kept !== undefined) return JSON.parse(kept) as JWK;
  await Deno.mkdir(join(path, ".."), { recursive: true });
  const { privateKey } = await generateKeyPair("ES256", { extractable: true });
  const jwk = await exportJWK(privateKey);
  const made: JWK = { ...jwk, kid: await calculateJwkThumbprint(jwk), alg: "ES256", use: "sig" };
  await createFileAtomically(path, JSON.stringify(made, undefined, 2) + "\n");
  // If someone else was first, theirs is the key.
  return JSON.parse(await Deno.readTextFile(path)) as JWK;
}
