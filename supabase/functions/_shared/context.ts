/** What travels with a request through middleware and handlers. */

import type { Context } from "hono";
import type { Credential } from "./domain/credential.ts";
import type { Settings } from "./env.ts";
import type { ApiError } from "./errors.ts";
import type { Platform, Session } from "./platform/mod.ts";

/** Hono's environment of both functions. */
export interface AppEnv {
  /** What `Deno.serve` tells of the connection; nothing where a request is made by hand. */
  Bindings: { remoteAddr?: { hostname?: string } } | undefined;
  Variables: {
    platform: Platform;
    settings: Settings;
    requestId: string;
    /** `performance.now()` when the request came in. */
    startedAt: number;
    /** Who asks; set by `requireApiKey`. */
    credential: Credential;
    /** SHA-256 of the `x-device-id` header, when there is one; set by `requireApiKey`. */
    device: Uint8Array | null;
    /** Who has signed in; set by `requireSession`. */
    session: Session;
    /** SHA-256 of the SCIM token of the request; set by `requireScimToken`. */
    scimTokenHash: Uint8Array;
    /** How a refusal is answered where the envelope is another protocol's. */
    answerRefusal?: (error: ApiError, c: AppContext) => Promise<Response>;
    /** Whether webhooks wait for what the request did; set by busy routes, which know. */
    told?: boolean;
    /** Notes one read by the caller, once it is answered; 0 for a probe that recalls nothing. */
    countRead: (recalls: 0 | 1) => void;
  };
}

export type AppContext = Context<AppEnv>;
