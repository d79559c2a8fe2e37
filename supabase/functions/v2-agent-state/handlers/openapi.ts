/** The reference as OpenAPI. */

import type { AppContext } from "../../_shared/context.ts";

/**
 * GET /openapi.json: 200 with the description of every operation, made by `deno task generate`. It is read when somebody
 * asks for it: no other request should wait for it at the start.
 */
export async function readOpenApi(c: AppContext): Promise<Response> {
  const { default: document } = await import("../openapi.json", { with: { type: "json" } });
  return c.body(JSON.stringify(document), 200, { "content-type": "application/json" });
}
