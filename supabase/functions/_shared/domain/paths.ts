/** The paths of requests, freed from whatever a gateway, an old client or a URL parser did to them. */

/**
 * Strips leading prefixes, in any order and number, from the path of a URL and leaves the rest encoded as it came.
 * `/functions/v1/v2-agent-state/v2/snapshot` becomes `/snapshot`. Spec 4 and 9.
 */
export function stripPrefixes(path: string, prefixes: readonly string[]): string {
  let rest = path;
  for (;;) {
    const prefix = prefixes.find((each) => rest === each || rest.startsWith(`${each}/`));
    if (prefix === undefined) return rest === "" ? "/" : rest;
    rest = rest.slice(prefix.length);
  }
}

/** The raw path of a URL: still percent-encoded, without query. */
export function rawPath(url: string): string {
  const start = url.indexOf("/", url.indexOf("://") + 3);
  if (start < 0) return "/";
  const end = url.slice(start).search(/[?#]/);
  return end < 0 ? url.slice(start) : url.slice(start, start + end);
}
