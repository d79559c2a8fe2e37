/** Routes of version 1 that are gone, and what does their work now. Spec section 9. */

/** One route, or everything below one. */
interface Removed {
  /** The only method that it had; without one, all were its. */
  method?: string;
  /** Method and what follows the vault's id in the route that does its work; absent where none does. */
  replacement?: readonly [method: string, path: string];
}

/** By what follows the vault's id. */
const REMOVED: Record<string, Removed> = {
  "lock": { method: "POST" },
  "unlock": { method: "POST", replacement: ["POST", "/release"] },
  "protection": { replacement: ["POST", "/release/config"] },
  "succession": { replacement: ["POST", "/heir"] },
  "verification": { replacement: ["POST", "/check-in"] },
  "certificate": { replacement: ["GET", "/audit/export"] },
  "release/contest": { method: "POST", replacement: ["POST", "/release/veto"] },
};
const VERIFY: Removed = { method: "GET" };

/** What a request for a removed route is told; undefined where there never was one. */
export function findRemoved(method: string, path: string): { replacement?: string } | undefined {
  const [, vault, part] = /^(\/api\/vault\/[^/]+)\/(release\/contest|[^/]+)/.exec(path) ?? [];
  const removed = path.startsWith("/api/verify/") ? VERIFY : REMOVED[part ?? ""];
  if (removed === undefined || (removed.method ?? method) !== method) return undefined;
  if (removed.replacement === undefined) return {};
  const [by, rest] = removed.replacement;
  return { replacement: `${by} ${vault}${rest}` };
}
