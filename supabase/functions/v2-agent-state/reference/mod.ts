/** The reference of this function: `openapi.json` is made from it. Descriptions of routes are beside this file. */

import { z } from "zod";
import type { Operations, Reference } from "../../_shared/reference/operation.ts";
import { HEALTH } from "../../_shared/reference/shapes.ts";
import { ACCOUNT_OPERATIONS } from "./account.ts";
import { AGENT_OPERATIONS } from "./agents.ts";
import { JOB_OPERATIONS, MARKETING_OPERATIONS } from "./jobs.ts";
import { type Scene, SHOWN } from "./scene.ts";
import { SCIM_OPERATIONS } from "./scim.ts";
import { SSO_OPERATIONS } from "./sso.ts";
import { TEAM_AUDIT_OPERATIONS } from "./team_audit.ts";
import { TEAM_OPERATIONS } from "./teams.ts";
import { WEBHOOK_OPERATIONS } from "./webhooks.ts";

const SERVICE_OPERATIONS: Operations<Scene> = {
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
};

export const REFERENCE: Reference<Scene> = {
  title: "v2-agent-state",
  description:
    `Storage and replication for the memory of AI agents, by a server that cannot read what it keeps.

Clients encrypt with AES-256-GCM before anything leaves them. An agent keeps its state in **snapshots**, numbered
checkpoints of up to 256 KiB, and in a **replication log**, blocks appended in order.

Every refusal is \`{"error": "<code>", "request_id": "…", …}\`. Act on the code: the description of each status lists
those that an operation can answer. A 503 and a 429 carry \`Retry-After\`. Fields that are not described here are
ignored in requests, and may be added to answers. Paths and methods that are not here answer 404 \`route_not_found\`.

The prefix \`/v2\` may stand before each path.`,
  servers: [
    { url: "http://127.0.0.1:8787/functions/v1/v2-agent-state", description: "`deno task start`" },
    {
      url: "https://{project}.supabase.co/functions/v1/v2-agent-state",
      description: "A Supabase project",
      variables: { project: { default: "your-project-ref" } },
    },
  ],
  tags: [
    { name: "Snapshots", description: "Numbered checkpoints, each a whole ciphertext" },
    { name: "Replication log", description: "Blocks in order, all of a request or none" },
    { name: "Layer A", description: "What the server can see: counts, byte totals, timestamps" },
    { name: "API keys", description: "Keys for agents" },
    { name: "Teams", description: "Members, and the team's key wrapped for each of them" },
    { name: "Team memory", description: "Ciphertext that a team shares" },
    { name: "Team audit", description: "The hash-chained ledger of every change of a team" },
    { name: "Settings and telemetry", description: "What belongs to the person who has signed in" },
    { name: "Billing", description: "Plans, seats and credit" },
    { name: "Webhooks", description: "Telling other systems" },
    { name: "Single sign-on", description: "A team's identity provider, and the tokens of its directory" },
    { name: "SCIM", description: "SCIM 2.0 (RFC 7644): what Okta and Entra provision a team with" },
    { name: "News", description: "Addresses that ask for news, and those that want none" },
    { name: "Jobs", description: "What a scheduler calls" },
    { name: "Service", description: "The service itself" },
  ],
  operations: {
    ...AGENT_OPERATIONS,
    ...ACCOUNT_OPERATIONS,
    ...TEAM_OPERATIONS,
    ...TEAM_AUDIT_OPERATIONS,
    ...WEBHOOK_OPERATIONS,
    ...SSO_OPERATIONS,
    ...SCIM_OPERATIONS,
    ...MARKETING_OPERATIONS,
    ...JOB_OPERATIONS,
    ...SERVICE_OPERATIONS,
  },
  scene: SHOWN,
};
