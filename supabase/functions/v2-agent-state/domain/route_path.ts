/** The path that the router sees. Pure. */

import { rawPath, stripPrefixes } from "../../_shared/domain/paths.ts";

const PREFIXES = ["/functions/v1", "/v2-agent-state", "/v2"];
const RESTORE = "(latest|lineage|0|[1-9][0-9]*)";
const DOT_AGENT = new RegExp(`^/snapshot/${RESTORE}$`);
const DOT_DOT_AGENT = new RegExp(`^/${RESTORE}$`);

/**
 * The route of a URL, still percent-encoded.
 *
 * Every URL parser removes the segments `.` and `..` (however they are escaped), so the restore routes of an agent
 * that is called so arrive with the segment missing. No other route looks like what is left, so it is put back.
 */
export function routePath(url: string): string {
  const path = stripPrefixes(rawPath(url), PREFIXES);
  return path.replace(DOT_AGENT, "/snapshot/%2E/$1").replace(DOT_DOT_AGENT, "/snapshot/%2E%2E/$1");
}
