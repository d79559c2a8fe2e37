/** The one error boundary: whatever was thrown becomes the spec's envelope, and nothing else gets out. */

import { ApiError } from "../errors.ts";
import type { AppContext } from "../context.ts";

/** Answers a thrown error: `{"error": code, "request_id": …, …details}`. Spec section 7. */
export function answerError(error: Error, c: AppContext): Response | Promise<Response> {
  const known = error instanceof ApiError ? error : new ApiError("internal_error");
  if (known !== error) {
    // The message may quote what the client sent; the name and the place may not.
    const place = error.stack?.split("\n").find((line) => line.includes(".ts:"))?.trim() ?? "";
    c.var.platform.log({
      level: "error",
      event: "unexpected_error",
      request_id: c.var.requestId,
      name: error.name,
      place,
    });
  }
  if (c.var.answerRefusal !== undefined) return c.var.answerRefusal(known, c);
  const body = { error: known.code, request_id: c.var.requestId, ...known.details };
  return c.json(body, known.status, known.headers);
}

/** Answers a path or method that has no route. */
export function answerNotFound(): never {
  throw new ApiError("route_not_found");
}
