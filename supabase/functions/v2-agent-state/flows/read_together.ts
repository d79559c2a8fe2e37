/** Reads what agents ask for often; requests that arrive together share a call. Spec 2.4, 2.6. */

import type { Credential } from "../../_shared/domain/credential.ts";
import type { Database, Platform } from "../../_shared/platform/mod.ts";
import { shareCalls } from "./share_calls.ts";

/** An answer as the API shows it. */
type Answer = Record<string, unknown>;

interface Waiting {
  credential: Credential;
  settle(answer: Answer | Promise<Answer>): void;
}

const REQUESTS_MAX = 64;

/** The head of the caller's log, not older than this call. Errors: those of `api.read_head`. */
export const readHead = readTogether("read_heads", "read_head");

/** The aggregates of the caller's log, not older than this call. Errors: those of `api.read_metadata`. */
export const readMetadata = readTogether("read_metadatas", "read_metadata");

/** Makes a reader of two functions that answer the same: one for several callers, one that says why it does not. */
function readTogether(
  several: string,
  one: string,
): (platform: Platform, who: Credential) => Promise<Answer> {
  const readers = new WeakMap<Platform, (waiting: Waiting) => void>();
  return function read(platform, credential) {
    let add = readers.get(platform);
    if (add === undefined) {
      add = shareCalls<Waiting>({
        take: (queue) => [queue.slice(0, REQUESTS_MAX), queue.slice(REQUESTS_MAX)],
        run: (together) => answerAll(platform.db, several, one, together),
        isMuch: (queue) => queue.length >= REQUESTS_MAX,
      });
      readers.set(platform, add);
    }
    return new Promise((settle) => add({ credential, settle }));
  };
}

/** Whoever cannot simply be answered goes alone, and is told why. */
async function answerAll(
  db: Database,
  several: string,
  one: string,
  together: readonly Waiting[],
): Promise<void> {
  try {
    const answers = await db.call<(Answer | null)[]>(several, {
      p_credential_kinds: together.map(({ credential }) => credential.kind),
      p_credential_hashes: together.map(({ credential }) => credential.hash),
    });
    for (const [i, { credential, settle }] of together.entries()) {
      const { kind: p_credential_kind, hash: p_credential_hash } = credential;
      settle(answers[i] ?? db.call<Answer>(one, { p_credential_kind, p_credential_hash }));
    }
  } catch (error) {
    for (const { settle } of together) settle(Promise.reject(error));
  }
}
