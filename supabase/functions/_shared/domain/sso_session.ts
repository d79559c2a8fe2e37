/** Sessions that somebody else's identity provider stands behind: which one it is, and whose addresses it may assert. */

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const PREFIX = "sso:";
const DOMAIN = /^[a-z0-9.-]{1,253}$/;

/**
 * The provider that Supabase Auth names in a token: `app_metadata.provider` and `providers` (`sso:<uuid>`), and the
 * `provider` of entries of `amr` with a method of SSO. Undefined when there is none; null when it is not certain which.
 * The user can write none of these claims.
 */
export function readSsoProvider(payload: Record<string, unknown>): string | null | undefined {
  const { provider, providers } = recordOf(payload.app_metadata);
  const accounts = [provider, ...listOf(providers)].filter(isText).filter((name) => name.startsWith(PREFIX));
  const entries = listOf(payload.amr).map(recordOf).filter(({ method }) =>
    isText(method) && /^sso\b/.test(method)
  );
  if (accounts.length === 0 && entries.length === 0) return undefined;
  const named = entries.map((entry) => entry.provider).filter(isText).map(withoutPrefix);
  const ids = new Set([...accounts.map(withoutPrefix), ...named]);
  const [id] = ids;
  return ids.size === 1 && UUID.test(id!) ? id! : null;
}

/**
 * The domain of an address as configurations spell domains: in ASCII, lower case. Undefined for every other spelling:
 * what has to be folded first may be folded differently where addresses are compared.
 */
export function domainOfAddress(address: string): string | undefined {
  const at = address.lastIndexOf("@");
  const domain = address.slice(at + 1).replace(/[A-Z]/g, (letter) => letter.toLowerCase());
  return at > 0 && DOMAIN.test(domain) ? domain : undefined;
}

function withoutPrefix(name: string): string {
  return (name.startsWith(PREFIX) ? name.slice(PREFIX.length) : name).toLowerCase();
}

function isText(value: unknown): value is string {
  return typeof value === "string";
}

function listOf(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

function recordOf(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null ? value as Record<string, unknown> : {};
}
