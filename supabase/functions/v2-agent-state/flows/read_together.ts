/** Reads where logs stand; requests that arrive together share a call. Spec 2.4. */

import type { Credential } from "../../_shared/domain/credential.ts";
import type { Database, Platform } from "../../_shared/platform/mod.ts";
import { shareCalls } from "./share_calls.ts";

/** A head as the API shows it. */
export type Head = Record<string, unknown>;

interface Waiting {
  credential: Credential;
  settle(head: Head | Promise<Head>): void;
}

const REQUESTS_MAX = 64;

const readers = new WeakMap<Platform, (waiting: Waiting) => void>();

/** The head of the caller's log, not older than this call. Errors: those of `api.read_head`. */
export function readHead(platform: Platform, credential: Credential): Promise<Head> {
  let add = readers.get(platform);
  if (add === undefined) {
    const { db } = platform;
    add = shareCalls<Waiting>(
      (queue) => [queue.slice(0, REQUESTS_MAX), queue.slice(REQUESTS_MAX)],
      (together) => readTogether(db, together),
    );
    readers.set(platform, add);
  }
  return new Promise((settle) => add({ credential, settle }));
}

/** Whoever cannot simply be answered goes alone, and is told why. */
async function readTogether(db: Database, together: readonly Waiting[]): Promise<void> {
  const alone = ({ kind, hash }: Credential) =>
    db.call<Head>("read_head", { p_credential_kind: kind, p_credential_hash: hash });
  const [first] = together;
  if (together.length === 1 && first !== undefined) {
    const head = alone(first.credential);
    first.settle(head);
    await head.catch(() => {});
    return;
  }
  try {
    const heads = await db.call<(Head | null)[]>("read_heads", {
      p_credential_kinds: together.map(({ credential }) => credential.kind),
      p_credential_hashes: together.map(({ credential }) => credential.hash),
    });
    for (const [i, { credential, settle }] of together.entries()) settle(heads[i] ?? alone(credential));
  } catch (error) {
    for (const { settle } of together) settle(Promise.reject(error));
  }
}
