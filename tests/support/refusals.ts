/** Refusals as the service's two envelopes say them: that of the specification, and SCIM's. */

import type { Answer } from "./harness.ts";

const SCIM_ERROR = "urn:ietf:params:scim:api:messages:2.0:Error";

/** The wire code of a refusal; undefined when the answer is none. */
export function codeOf({ body, status }: Answer): string | undefined {
  if (typeof body?.error === "string") return body.error;
  if (!body?.schemas?.includes?.(SCIM_ERROR) || body.status !== String(status)) return undefined;
  return /^([a-z_]+(?::[A-Za-z_.]+)?): /.exec(body.detail)?.[1];
}
