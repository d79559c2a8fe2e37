/** The path that the router sees. Pure. */

/** What gateways put before a path. */
export const PREFIXES: readonly string[] = ["/functions/v1", "/vault"];
