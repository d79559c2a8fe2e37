/** The reference as OpenAPI. */

import type { AppContext } from "../../_shared/context.ts";
import document from "../openapi.json" with { type: "json" };

/** GET /openapi.json: 200 with the description of every operation, made by `deno task generate`. */
export function readOpenApi(c: AppContext): Response {
  return c.body(JSON.stringify(document), 200, { "content-type": "application/json" });
}
