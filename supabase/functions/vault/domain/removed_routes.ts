/** Routes of version 1 that are gone, and what does their work now. Spec section 9. */

/** What stands where the vault's id was. */
type Replace = (vault: string) => string;

/** From the part of the path after the vault's id to its replacement; null where there is none. */
const REPLACEMENTS: Record<string, Replace | null> = {
  "unlock": (vault) => `POST ${vault}/release`,
  "protection": (vault) => `POST ${vault}/release/config`,
  "succession": (vault) => `POST ${vault}/heir`,
  "verification": (vault) => `POST ${vault}/check-in`,
  "certificate": (vault) => `GET ${vault}/audit/export`,
  "release": (vault) => `POST ${vault}/release/veto`,
};

/** The route that replaces a removed one, as method and path; null where there is none. */
export function findReplacement(path: string): string | null {
  const [, vault, part] = /^(\/api\/vault\/[^/]+)\/([^/]+)/.exec(path) ?? [];
  return part === undefined ? null : REPLACEMENTS[part]?.(vault!) ?? null;
}
