/** The reference of this function: `openapi.json` is made from it. */

import { z } from "zod";
import type { Reference } from "../../_shared/reference/operation.ts";
import { HEALTH } from "../../_shared/reference/shapes.ts";
import { GUEST_OPERATIONS } from "./guests.ts";
import { OWNER_OPERATIONS } from "./owner.ts";
import { type Scene, SHOWN } from "./scene.ts";

export const REFERENCE: Reference<Scene> = {
  title: "vault",
  description: `Heirs, guardians, assets and their release: the second, separate interface.

What is stored is encrypted by clients; the server decides only when an heir may fetch what is wrapped for them.
\`docs/vault.md\` has the states and every transition. Routes of version 1 answer 410 \`endpoint_removed\`.

Every refusal is \`{"error": "<code>", "request_id": "…", …}\`. Act on the code.`,
  servers: [
    { url: "http://127.0.0.1:8787/functions/v1/vault", description: "`deno task start`" },
    {
      url: "https://{project}.supabase.co/functions/v1/vault",
      description: "A Supabase project",
      variables: { project: { default: "your-project-ref" } },
    },
  ],
  tags: [
    { name: "Vaults", description: "What somebody leaves to others" },
    { name: "Heirs and guardians", description: "Who receives, and who says that it is time" },
    { name: "Assets", description: "Ciphertext, and its key wrapped for heirs" },
    { name: "Release", description: "Triggers, check-ins, vetoes" },
    { name: "Audit", description: "The hash-chained ledger of a vault" },
    { name: "By token", description: "What heirs and guardians do with the token from their mail" },
    { name: "Jobs", description: "What a scheduler calls" },
    { name: "Service", description: "The service itself" },
  ],
  operations: {
    ...OWNER_OPERATIONS,
    ...GUEST_OPERATIONS,
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
  scene: SHOWN,
};
