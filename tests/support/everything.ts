/** The service of a world with all that an operation may need: a payment provider, a cron secret, where to go back to. */

import type { World } from "./harness.ts";
import { MAIL_SETTINGS } from "./jobs.ts";
import { withPolar, withSettings } from "./polar.ts";

export const CRON_SECRET = "cron-secret-for-the-laboratory";

/** Runs `work` with that service. */
export async function withEverything(
  world: World,
  work: (service: ReturnType<World["with"]>) => Promise<void>,
): Promise<void> {
  const link = "https://polar.example/";
  const answer = () => Response.json({ id: "x", url: link, customer_portal_url: link });
  await withPolar(answer, async (polar) => {
    const { platform } = withSettings(world, polar);
    await work(world.with({
      ...platform,
      settings: {
        polar,
        cronSecret: CRON_SECRET,
        billingReturnOrigins: ["https://app.example"],
        ...MAIL_SETTINGS,
      },
    }));
  });
}
