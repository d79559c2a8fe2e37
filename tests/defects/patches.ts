/**
 * The defects that a public service of this kind was found to have, each written back into ours by hand. A test must
 * notice every one of them: `deno task defects`.
 */

import type { Defect } from "./defect.ts";
import { INPUT_DEFECTS } from "./input.ts";
import { STORAGE_DEFECTS } from "./storage.ts";

/** All of them. */
export const DEFECTS: readonly Defect[] = [...STORAGE_DEFECTS, ...INPUT_DEFECTS];

/** Defects that cannot be written back, and why. */
export const NOT_APPLICABLE: Record<string, string> = {
  R21:
    "A wallet's address in a uuid column: accounts are opened by subject, and no text of a client is ever an id of ours",
};
