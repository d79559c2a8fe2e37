/** The secret that signs the payment provider's events on this machine, kept in DATA_DIR. */

import { join } from "node:path";
import { createFileAtomically } from "./files.ts";

/** Returns the secret of this data directory; it is made at the first use. */
export async function localPolarSecret(dataDir: string): Promise<string> {
  const path = join(dataDir, "polar_webhook_secret");
  await Deno.mkdir(dataDir, { recursive: true });
  const secret = `whsec_${crypto.getRandomValues(new Uint8Array(32)).toBase64()}`;
  // If there is one already, that is the secret.
  await createFileAtomically(path, `${secret}\n`);
  return (await Deno.readTextFile(path)).trim();
}
