/** Where a request comes from, as far as that can be believed. For limits only, never to let somebody in. */

import { isInternalAddress, networkOf } from "./public_address.ts";

/** What the operator knows of the proxies in front. */
export interface AddressRule {
  /** A header that the outermost proxy always sets itself, to the caller's address alone. */
  header: string | undefined;
  /** How many proxies with public addresses, or none but internal ones, add to `x-forwarded-for`; 0: it is not read. */
  proxies: number;
}

/** What came with the request. */
export interface AddressSources {
  header: string | undefined;
  forwardedFor: string | undefined;
  connection: string | undefined;
}

/**
 * The caller's network, or undefined when nothing says. Each proxy adds at the right whom it was called by, and what is
 * further left is the caller's own word: so the entry counts that the outermost proxy of ours has added. Entries of
 * internal addresses to the right of it are proxies of one network and are passed over.
 */
export function readNetwork(rule: AddressRule, sources: AddressSources): string | undefined {
  const named = rule.header === undefined ? undefined : networkOf(sources.header?.trim() ?? "");
  return named ?? readForwarded(rule.proxies, sources.forwardedFor) ?? networkOf(sources.connection ?? "");
}

/** Some proxies write `1.2.3.4:5678` and `[2001:db8::1]:5678`. */
function withoutPort(entry: string): string {
  const [, v6, v4] = /^(?:\[([^\]]+)\](?::\d+)?|([\d.]+):\d+)$/.exec(entry) ?? [];
  return v6 ?? v4 ?? entry;
}

function readForwarded(proxies: number, forwardedFor: string | undefined): string | undefined {
  if (proxies === 0 || forwardedFor === undefined) return undefined;
  const entries = forwardedFor.split(",").map((entry) => withoutPort(entry.trim()));
  const outside = entries.findLastIndex((entry) => !isInternalAddress(entry));
  const end = outside < 0 ? entries.length : outside + 1;
  return networkOf(entries[Math.max(end - proxies, 0)]!);
}
