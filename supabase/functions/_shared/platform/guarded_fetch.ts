/** Requests to addresses that users gave: to public ones only, not where they point to, and for a short time. */

import { findUrlFault, isPublicAddress } from "../domain/public_address.ts";

const TIMEOUT_MS = 10_000;
const RESOLVE_TIMEOUT_MS = 5_000;
const ANSWER_BYTES_MAX = 64 * 1024;

/** Looks a name up. Throws `Deno.errors.NotFound` when the name has no record of that type. */
export type Resolve = (name: string, type: "A" | "AAAA", signal: AbortSignal) => Promise<string[]>;

/** How a {@link GuardedFetch} differs from that of a deployment; for development and tests. */
export interface GuardOptions {
  /** Lets http and addresses that are not public through. */
  allowPrivate: boolean;
  resolve?: Resolve;
  /** What sends once the guard has let a request pass. */
  fetch?: (url: string, init: RequestInit) => Promise<Response>;
  timeoutMs?: number;
}

/** What came of a request: the status with a wait that was asked for, or why there is none. */
export interface GuardedAnswer {
  status: number | null;
  /** `timeout`, `unreachable`, or what {@link GuardedFetch.findFault} says; null with a status. */
  fault: string | null;
  retryAfter: string | null;
}

/** What came of fetching something: its bytes, or why there are none. */
export type GuardedBody = { bytes: Uint8Array; fault: null } | { bytes: null; fault: string };

/** Requests to other people's addresses. */
export interface GuardedFetch {
  /**
   * Why nothing may be sent to a URL: a `UrlFault`, `not_resolved` when its name cannot be looked up for certain, or
   * `address_not_public` when any of its addresses is not. Undefined when it may.
   */
  findFault(url: string): Promise<string | undefined>;
  /** Checks the URL again and posts `body`. Never throws, and tells nothing of the answer but its status. */
  post(url: string, headers: Record<string, string>, body: string): Promise<GuardedAnswer>;
  /**
   * Checks the URL again and fetches at most `bytesMax`. Never throws. Faults besides those of `findFault`: `timeout`,
   * `unreachable`, `too_large`, `http_<status>` for every status but 200.
   */
  get(url: string, headers: Record<string, string>, bytesMax: number): Promise<GuardedBody>;
}

/**
 * Opens the guard. Between the check and the connection the name may come to mean another address: `fetch` has no way
 * to be told which one to use. docs/security.md says what that leaves open.
 */
export function openGuardedFetch(options: GuardOptions): GuardedFetch {
  const { allowPrivate, resolve = lookUp, fetch: send = fetch, timeoutMs = TIMEOUT_MS } = options;

  async function findFault(url: string): Promise<string | undefined> {
    const fault = findUrlFault(url, allowPrivate);
    if (fault !== undefined || allowPrivate) return fault;
    const { hostname } = new URL(url);
    const signal = AbortSignal.timeout(RESOLVE_TIMEOUT_MS);
    const answers = await Promise.all([
      recordsOf(resolve, hostname, "A", signal),
      recordsOf(resolve, hostname, "AAAA", signal),
    ]);
    const addresses = answers.flatMap((answer) => answer ?? []);
    if (answers.includes(undefined) || addresses.length === 0) return "not_resolved";
    return addresses.every(isPublicAddress) ? undefined : "address_not_public";
  }

  return {
    findFault,
    async post(url, headers, body) {
      const fault = await findFault(url);
      if (fault !== undefined) return { status: null, fault, retryAfter: null };
      const signal = AbortSignal.timeout(timeoutMs);
      try {
        const response = await send(url, { method: "POST", redirect: "manual", signal, headers, body });
        await drain(response);
        return { status: response.status, fault: null, retryAfter: response.headers.get("retry-after") };
      } catch {
        // What was thrown is not passed on: it may quote the address.
        return { status: null, fault: signal.aborted ? "timeout" : "unreachable", retryAfter: null };
      }
    },
    async get(url, headers, bytesMax) {
      const fault = await findFault(url);
      if (fault !== undefined) return { bytes: null, fault };
      const signal = AbortSignal.timeout(timeoutMs);
      try {
        const response = await send(url, { method: "GET", redirect: "manual", signal, headers });
        const bytes = await readUpTo(response, bytesMax);
        if (response.status !== 200) return { bytes: null, fault: `http_${response.status}` };
        return bytes === undefined ? { bytes: null, fault: "too_large" } : { bytes, fault: null };
      } catch {
        return { bytes: null, fault: signal.aborted ? "timeout" : "unreachable" };
      }
    },
  };
}

/** Reads a body whole; undefined, and hangs up, when it is longer. */
async function readUpTo(response: Response, bytesMax: number): Promise<Uint8Array | undefined> {
  if (response.body === null) return new Uint8Array();
  const parts: Uint8Array[] = [];
  let total = 0;
  for await (const part of response.body) {
    total += part.byteLength;
    if (total > bytesMax) return undefined;
    parts.push(part);
  }
  const bytes = new Uint8Array(total);
  parts.reduce((offset, part) => (bytes.set(part, offset), offset + part.byteLength), 0);
  return bytes;
}

/** The records of a name; undefined when it is not certain what they are. */
async function recordsOf(
  resolve: Resolve,
  name: string,
  type: "A" | "AAAA",
  signal: AbortSignal,
): Promise<string[] | undefined> {
  try {
    return await resolve(name, type, signal);
  } catch (error) {
    return error instanceof Error && error.name === "NotFound" ? [] : undefined;
  }
}

function lookUp(name: string, type: "A" | "AAAA", signal: AbortSignal): Promise<string[]> {
  return Deno.resolveDns(name, type, { signal });
}

/** Reads the beginning of an answer, so that its sender sees it taken, and hangs up on the rest. */
async function drain(response: Response): Promise<void> {
  if (response.body === null) return;
  const reader = response.body.getReader();
  try {
    for (let total = 0; total < ANSWER_BYTES_MAX;) {
      const { done, value } = await reader.read();
      if (done) return;
      total += value.byteLength;
    }
  } catch {
    // The status has been said; how the body ends is the endpoint's own affair.
  } finally {
    await reader.cancel().catch(() => {});
  }
}
