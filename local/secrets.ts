/** The secrets of this machine: made at the first use and kept in DATA_DIR. */

import { join } from "node:path";
import { createFileAtomically } from "./files.ts";

/** The secret that signs the payment provider's events. */
export function localPolarSecret(dataDir: string): Promise<string> {
  return keepSecret(dataDir, "polar_webhook_secret", "whsec_");
}

/** The secret that lets scheduled jobs in. */
export function localCronSecret(dataDir: string): Promise<string> {
  return keepSecret(dataDir, "cron_secret", "");
}

/** The secret that signs the tokens of mails. */
export function localUnsubscribeSecret(dataDir: string): Promise<string> {
  return keepSecret(dataDir, "unsubscribe_secret", "");
}

async function keepSecret(dataDir: string, name: string, prefix: string): Promise<string> {
  const path = join(dataDir, name);
  await Deno.mkdir(dataDir, { recursive: true });
  const secret = `${prefix}${crypto.getRandomValues(new Uint8Array(32)).toBase64()}`;
  // If there is one already, that is the secret.
  await createFileAtomically(path, `${secret}\n`);
  return (await Deno.readTextFile(path)).trim();
}
