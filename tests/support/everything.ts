/** The service of a world with all that an operation may need: a payment provider, a cron secret, where to go back to. */

import type { Database } from "../../supabase/functions/_shared/platform/mod.ts";
import type { World } from "./harness.ts";
import { MAIL_SETTINGS } from "./jobs.ts";
import { withPolar, withSettings } from "./polar.ts";

export const CRON_SECRET = "cron-secret-for-the-laboratory";

/** Runs `work` with that service, on the database of the world unless another is named. */
export async function withEverything(
  world: World,
  work: (service: ReturnType<World["with"]>) => Promise<void>,
  db: Database = world.platform.db,
): Promise<void> {
  const link = "https://polar.example/";
  const answer = () => Response.json({ id: "x", url: link, customer_portal_url: link });
  await withPolar(answer, async (polar) => {
    const { platform } = withSettings(world, polar);
    await work(world.with({
      ...platform,
      db,
      settings: {
        polar,
        cronSecret: CRON_SECRET,
        billingReturnOrigins: ["https://app.example"],
        ...MAIL_SETTINGS,
      },
    }));
  });
}
