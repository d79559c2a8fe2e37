/** Looks names up in the DNS, with Deno's resolver. */

import { ApiError } from "../errors.ts";
import type { NameService } from "./mod.ts";

const TIMEOUT_MS = 5_000;

/** How a {@link NameService} differs from that of a deployment; for tests. */
export interface NameServiceOptions {
  /** Whom to ask, instead of the name server of this machine. */
  nameServer?: { ipAddr: string; port: number };
  timeoutMs?: number;
}

/** Opens the service. Deno says `NotFound` of a server that answers with a failure too: that is no record either. */
export function openNameService(
  { nameServer, timeoutMs = TIMEOUT_MS }: NameServiceOptions = {},
): NameService {
  return {
    async findTexts(name) {
      const options = {
        signal: AbortSignal.timeout(timeoutMs),
        ...(nameServer === undefined ? {} : { nameServer }),
      };
      try {
        // The dot at the end keeps the search domains of this machine out.
        const records = await Deno.resolveDns(`${name}.`, "TXT", options);
        return records.map((parts) => parts.join(""));
      } catch (error) {
        if (error instanceof Error && error.name === "NotFound") return [];
        throw new ApiError("dns_unavailable", {}, { cause: error });
      }
    },
  };
}
