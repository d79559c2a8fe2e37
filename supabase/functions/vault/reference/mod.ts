/** The reference of this function: `openapi.json` is made from it. */

import { z } from "zod";
import type { Reference } from "../../_shared/reference/operation.ts";
import { HEALTH } from "../../_shared/reference/shapes.ts";

/** Nothing here needs anything to be there yet. */
export type Scene = Record<string, never>;

export const REFERENCE: Reference<Scene> = {
  title: "vault",
  description: `Heirs, guardians and assets: the second, separate interface.

Every refusal is \`{"error": "<code>", "request_id": "…", …}\`. Act on the code.`,
  servers: [
    { url: "http://127.0.0.1:8787/functions/v1/vault", description: "`deno task start`" },
    {
      url: "https://{project}.supabase.co/functions/v1/vault",
      description: "A Supabase project",
      variables: { project: { default: "your-project-ref" } },
    },
  ],
  tags: [{ name: "Service", description: "The service itself" }],
  operations: {
    "GET /health": {
      tag: "Service",
      summary: "Whether Postgres and the blob store both answer",
      answers: { 200: { body: HEALTH } },
      errors: ["storage_unavailable"],
      example: () => ({}),
    },
    "GET /openapi.json": {
      tag: "Service",
      summary: "This document",
      answers: { 200: { body: z.looseObject({ openapi: z.literal("3.1.1") }) } },
      offline: true,
      example: () => ({}),
    },
  },
  scene: {},
};
