/** Which addresses the service may send to on a user's word: pure rules about URLs, host names and IP addresses. */

const PORTS = ["", "443", "8443"];
const URL_LENGTH_MAX = 2_048;
const HOST_LENGTH_MAX = 253;

/** Names that no public DNS answers for, or that mean this machine or its network. RFC 6761, 6762, 8375, 9476. */
const PRIVATE_SUFFIXES = [
  ...["localhost", "localdomain", "local", "internal", "intranet", "private", "corp", "home", "lan"],
  ...["home.arpa", "arpa", "svc", "test", "example", "invalid", "onion", "alt"],
];

/** Ranges of IPv4 that are not public. IANA's special-purpose registry, and one cloud's own. */
const IPV4_REFUSED = [
  "0.0.0.0/8",
  "10.0.0.0/8",
  "100.64.0.0/10", // carrier-grade NAT
  "127.0.0.0/8",
  "168.63.129.16/32", // the platform address of Azure, reachable from inside alone
  "169.254.0.0/16", // link-local, and the metadata of most clouds
  "172.16.0.0/12",
  "192.0.0.0/24",
  "192.0.2.0/24", // documentation
  "192.31.196.0/24", // AS112
  "192.52.193.0/24", // AMT
  "192.88.99.0/24", // 6to4 relays
  "192.168.0.0/16",
  "192.175.48.0/24", // AS112
  "198.18.0.0/15", // benchmarking
  "198.51.100.0/24", // documentation
  "203.0.113.0/24", // documentation
  "224.0.0.0/4", // multicast
  "240.0.0.0/4", // reserved, and broadcast
].map(parseRange);

/**
 * Global unicast is all that is public in IPv6: loopback, mapped, NAT64, ULA, link-local and multicast lie outside.
 * These parts of it are not.
 */
const IPV6_GLOBAL = parseRange("2000::/3");
const IPV6_REFUSED = [
  "2001::/23", // Teredo, ORCHID, benchmarking and other protocols
  "2001:db8::/32", // documentation
  "2002::/16", // 6to4: carries an IPv4 address of any kind
  "2620:4f:8000::/48", // AS112
  "3fff::/20", // documentation
].map(parseRange);

/** Where proxies of one's own are, and nobody who comes from outside. */
const INTERNAL = [
  ...["10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16"],
  ...["::1/128", "fc00::/7", "fe80::/10"],
].map(parseRange);

/** IPv4 as IPv6 spells it. */
const MAPPED = parseRange("::ffff:0:0/96");

/** Why a URL is refused. */
export type UrlFault =
  | "not_a_url"
  | "not_https"
  | "has_credentials"
  | "port_not_allowed"
  | "ip_address"
  | "host_not_public";

interface Range {
  bytes: readonly number[];
  bits: number;
}

/**
 * Says why nothing may be sent to `url`, or undefined when only its addresses are left to be checked. Looks at the URL
 * as the sender reads it, so that a host's spelling does not matter. With `allowPrivate`, which is for development,
 * any http or https URL without credentials will do.
 */
export function findUrlFault(url: string, allowPrivate: boolean): UrlFault | undefined {
  // What a parser would quietly drop or turn into something else.
  if (url.length > URL_LENGTH_MAX || /[\s\\\p{Cc}\p{Cf}]/u.test(url) || !URL.canParse(url)) {
    return "not_a_url";
  }
  const { protocol, hostname, port, username, password } = new URL(url);
  if (protocol !== "https:" && !(allowPrivate && protocol === "http:")) return "not_https";
  if (username !== "" || password !== "" || /^[a-z]+:\/*[^/?#]*@/i.test(url)) return "has_credentials";
  if (allowPrivate) return undefined;
  if (!PORTS.includes(port)) return "port_not_allowed";
  return findHostFault(hostname);
}

/** Whether an IP address, as DNS answers it, is a public unicast one. Anything that is not an address is not. */
export function isPublicAddress(address: string): boolean {
  const v4 = parseIpv4(address);
  if (v4 !== undefined) return !IPV4_REFUSED.some((range) => isWithin(v4, range));
  const v6 = parseIpv6(address);
  return v6 !== undefined && isWithin(v6, IPV6_GLOBAL) && !IPV6_REFUSED.some((range) => isWithin(v6, range));
}

/** Whether an IP address is one of a private network, or of this machine. */
export function isInternalAddress(address: string): boolean {
  const bytes = parseAddress(address);
  return bytes !== undefined && INTERNAL.some((range) => isWithin(bytes, range));
}

/**
 * The network that an IP address stands for when callers are told apart: the address itself, of IPv6 the first 64 bits,
 * which is what one line of a household has. Returns undefined for what is no address.
 */
export function networkOf(address: string): string | undefined {
  const bytes = parseAddress(address);
  if (bytes === undefined || bytes.length === 4) return bytes?.join(".");
  const groups = [0, 2, 4, 6].map((i) => hex(bytes[i]!, bytes[i + 1]!));
  return `${groups.join(":")}::/64`;
}

function parseAddress(text: string): number[] | undefined {
  const bytes = parseIpv4(text) ?? parseIpv6(text);
  return bytes?.length === 16 && isWithin(bytes, MAPPED) ? bytes.slice(12) : bytes;
}

/** The host of a parsed URL: its parser has turned every spelling of IPv4 into four decimal numbers. */
function findHostFault(hostname: string): UrlFault | undefined {
  const host = hostname.replace(/\.$/, "");
  const labels = host.split(".");
  const last = labels.at(-1)!;
  if (host.startsWith("[") || /^(?:[0-9]+|0x[0-9a-f]*)$/i.test(last)) return "ip_address";
  const isName = host.length <= HOST_LENGTH_MAX &&
    labels.every((label) => /^[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?$/.test(label));
  if (!isName || labels.length < 2) return "host_not_public";
  return PRIVATE_SUFFIXES.some((suffix) => host.endsWith(`.${suffix}`)) ? "host_not_public" : undefined;
}

/** Four decimal numbers without leading zeros, as bytes. */
function parseIpv4(text: string): number[] | undefined {
  if (!/^(?:(?:0|[1-9][0-9]{0,2})(?:\.(?!$)|$)){4}$/.test(text)) return undefined;
  const bytes = text.split(".").map(Number);
  return bytes.length === 4 && bytes.every((byte) => byte <= 255) ? bytes : undefined;
}

/** Eight groups, perhaps with one `::` and an IPv4 tail, as bytes. A zone is no part of an address. */
function parseIpv6(text: string): number[] | undefined {
  const tail = /^(.*:)([0-9.]+\.[0-9.]+)$/.exec(text);
  const v4 = tail === null ? undefined : parseIpv4(tail[2]!);
  if (tail !== null && v4 === undefined) return undefined;
  const groups = v4 === undefined ? text : `${tail![1]}${hex(v4[0]!, v4[1]!)}:${hex(v4[2]!, v4[3]!)}`;
  const halves = groups.split("::");
  if (halves.length > 2 || !/^[0-9a-f:]+$/i.test(groups)) return undefined;
  const [head, rest] = halves.map((half) => half === "" ? [] : half.split(":"));
  const missing = 8 - head!.length - (rest?.length ?? 0);
  if (rest === undefined ? missing !== 0 : missing < 1) return undefined;
  const all = [...head!, ...Array.from({ length: missing }, () => "0"), ...(rest ?? [])];
  if (!all.every((group) => /^[0-9a-f]{1,4}$/i.test(group))) return undefined;
  return all.flatMap((group) => [parseInt(group, 16) >> 8, parseInt(group, 16) & 255]);
}

function hex(high: number, low: number): string {
  return (high * 256 + low).toString(16);
}

function parseRange(text: string): Range {
  const [address, bits] = text.split("/");
  return { bytes: parseIpv4(address!) ?? parseIpv6(address!)!, bits: Number(bits) };
}

/** Whether both are of one kind and their first `bits` are equal. */
function isWithin(address: readonly number[], { bytes, bits }: Range): boolean {
  return bytes.length === address.length && bytes.every((byte, i) => {
    const used = Math.min(Math.max(bits - i * 8, 0), 8);
    return (byte ^ address[i]!) >> (8 - used) === 0;
  });
}
