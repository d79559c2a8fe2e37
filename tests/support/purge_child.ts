/**
 * A purge in a process of its own, so that a test can kill it: `purge_child.ts DATABASE_URL BLOBS POINT NTH`.
 *
 * At the NTH time that it comes to POINT it says so and goes no further.
 */

import { openBlobFiles } from "../../local/blob_files.ts";
import { retentionDays } from "../../supabase/functions/_shared/domain/retention.ts";
import { openDirectDatabase } from "../../supabase/functions/_shared/platform/database_direct.ts";
import type { Database, Platform } from "../../supabase/functions/_shared/platform/mod.ts";
import { purge } from "../../supabase/functions/v2-agent-state/flows/purge.ts";

const [url, root, point, nth] = Deno.args;
let times = 0;

/** Stays there for ever when it is the place to be killed at. */
async function pass(here: string): Promise<void> {
  if (here !== point || ++times < Number(nth)) return;
  Deno.stdout.writeSync(new TextEncoder().encode("here\n"));
  await new Promise(() => setInterval(() => {}, 1000));
}

const { db } = openDirectDatabase({ url: url!, poolSize: 2, prepared: true, role: "service_role", log() {} });
const blobs = await openBlobFiles(root!, () => "http://blobs.test");
const watched: Database = {
  ...db,
  async call<T>(name: string, args: Parameters<Database["call"]>[1]) {
    const answer = await db.call<T>(name, args);
    await pass(`after ${name}`);
    return answer;
  },
};
const platform: Pick<Platform, "db" | "blobs"> = {
  db: watched,
  blobs: {
    ...blobs,
    async remove(names) {
      const half = Math.floor(names.length / 2);
      await blobs.remove(names.slice(0, half));
      await pass("amid objects");
      await blobs.remove(names.slice(half));
      await pass("after objects");
    },
  },
};
await purge(platform as Platform, retentionDays({}));
Deno.exit(0);
