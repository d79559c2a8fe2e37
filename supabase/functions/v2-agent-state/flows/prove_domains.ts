/** Whether domains are a team's: a record of the DNS that only who runs the domain can publish says so. Spec 4.8. */

import { ApiError } from "../../_shared/errors.ts";
import type { NameService } from "../../_shared/platform/mod.ts";

/** A domain, and the record that proves it. See `app.show_sso_domains`. */
export interface DomainProof {
  domain: string;
  verified: boolean;
  verified_at: string | null;
  record: { type: "TXT"; name: string; value: string };
}

/** Looks for the records of domains that are not proved yet; returns those that have theirs. Errors: `dns_unavailable`. */
export async function findProved(names: NameService, proofs: readonly DomainProof[]): Promise<string[]> {
  const open = proofs.filter(({ verified }) => !verified);
  const found = await Promise.all(open.map(async ({ domain, record }) => {
    const texts = await names.findTexts(record.name);
    return texts.some((text) => text.trim() === record.value) ? [domain] : [];
  }));
  return found.flat();
}

/** Errors: `domain_not_verified`, with the domains that are neither proved before nor `proved` now. */
export function requireProved(proofs: readonly DomainProof[], proved: readonly string[]): void {
  const missing = proofs.filter(({ domain, verified }) => !verified && !proved.includes(domain));
  if (missing.length > 0) throw new ApiError("domain_not_verified", { domain_verification: missing });
}
