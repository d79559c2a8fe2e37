/** Lets handlers note reads, which are counted once they are answered. */

import { createMiddleware } from "hono/factory";
import type { AppEnv } from "../../_shared/context.ts";
import type { Credential } from "../../_shared/domain/credential.ts";

/** Sets `countRead`: what `count` does, for the caller of the request. */
export function provideReadCounter(
  count: (credential: Credential, device: Uint8Array | null, recalls: 0 | 1) => void,
) {
  return createMiddleware<AppEnv>(async function provideReadCounter(c, next) {
    c.set("countRead", (recalls) => count(c.get("credential"), c.get("device"), recalls));
    await next();
  });
}
