/**
 * Counts reads after they were answered, so that no read waits for a write. Best effort, as the spec says of
 * `recallRequests`: what an isolate has not yet written down when it dies is not counted. Spec 2.6.
 */

import { encodeHex } from "../../_shared/domain/bytes.ts";
import type { Credential } from "../../_shared/domain/credential.ts";
import { ApiError } from "../../_shared/errors.ts";
import type { Platform } from "../../_shared/platform/mod.ts";

/** How long reads are gathered before they are written down together. */
const GATHER_MS = 500;

/** Callers whose reads are kept through an outage. */
const TALLIES_KEPT_MAX = 1_000;

interface Tally {
  credential: Credential;
  device: Uint8Array | null;
  recalls: number;
}

/** Notes one read by a credential, perhaps on a named device; `recalls` is 0 for a probe such as GET /head. */
type CountRead = (credential: Credential, device: Uint8Array | null, recalls: 0 | 1) => void;

/** Makes the counter of one app. At most one write is under way, however many reads there are. */
export function createReadCounter(platform: Platform): CountRead {
  let tallies = new Map<string, Tally>();
  let writing = false;

  function add(tally: Tally): void {
    const { credential, device } = tally;
    const who = `${encodeHex(credential.hash)}/${device === null ? "" : encodeHex(device)}`;
    const known = tallies.get(who);
    if (known === undefined) tallies.set(who, tally);
    else known.recalls += tally.recalls;
  }

  async function writeDown(): Promise<void> {
    while (tallies.size > 0) {
      await new Promise((resolve) => setTimeout(resolve, GATHER_MS));
      const gathered = [...tallies.values()];
      tallies = new Map();
      try {
        await platform.db.call("record_reads", {
          p_credential_kinds: gathered.map((tally) => tally.credential.kind),
          p_credential_hashes: gathered.map((tally) => tally.credential.hash),
          p_device_hashes: gathered.map((tally) => tally.device),
          p_recalls: gathered.map((tally) => tally.recalls),
        });
      } catch (error) {
        // Busy: they go with the next reads. Anything else would fail again.
        const busy = error instanceof ApiError && error.code === "service_unavailable";
        if (busy && gathered.length <= TALLIES_KEPT_MAX) gathered.forEach(add);
        platform.log({ level: "warn", event: "reads_not_counted_yet", tallies: gathered.length, kept: busy });
        break;
      }
    }
    writing = false;
  }

  return function countRead(credential, device, recalls) {
    add({ credential, device, recalls });
    if (writing) return;
    writing = true;
    platform.background(writeDown());
  };
}
