/** Whether the service can do its work at this moment. */

import type { AppContext } from "../context.ts";
import { ApiError } from "../errors.ts";

/** GET /health: 200 `{"status":"ok"}` only when Postgres and the blob store both answer; else 503. */
export async function health(c: AppContext): Promise<Response> {
  const { db, blobs } = c.var.platform;
  await Promise.all([db.call("ping", {}), blobs.ping().catch(storageIsAway)]);
  return c.json({ status: "ok" });
}

function storageIsAway(cause: unknown): never {
  throw new ApiError("storage_unavailable", {}, { cause });
}
