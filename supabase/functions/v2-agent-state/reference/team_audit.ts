/** The ledger of a team. Spec 4.5; docs/audit.md. */

import { z } from "zod";
import type { Operations } from "../../_shared/reference/operation.ts";
import { count, sha256, time, uuid, words } from "../../_shared/reference/shapes.ts";
import { AUDIT_FORMAT } from "../../_shared/domain/audit_chain.ts";
import { FILTERS, PERIOD } from "../handlers/team_audit.ts";
import { TEAM } from "../middleware/team_arguments.ts";
import { type Scene, SHOWN } from "./scene.ts";

const team_id = uuid(SHOWN.teamId);
const HEAD = {
  head_seq: z.int().min(-1).meta({ examples: [3] }).describe("The newest entry's `seq`"),
  head_hash: sha256().describe("The newest entry's hash"),
};
const AUDIT_ENTRY = z.object({
  id: uuid("a86e0d2f-93b5-4c1e-8d7a-0f4b6c2e9135"),
  seq: count(1),
  actor: words("user-1"),
  action: words("member.add"),
  resource_type: words("member"),
  resource_id: words("user-2"),
  metadata: z.record(z.string(), z.union([z.string(), z.int(), z.boolean(), z.null()]))
    .meta({ examples: [{ role: "write" }] }),
  prev_hash: sha256(),
  entry_hash: sha256("2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"),
  created_at: time,
}).meta({ id: "AuditEntry" });

const FIELDS = { id: "The team" };
const TIMES = { from: "Not before this instant, ISO 8601", to: "Not after this instant, ISO 8601" };

export const TEAM_AUDIT_OPERATIONS: Operations<Scene> = {
  "GET /teams/:id/audit": {
    tag: "Team audit",
    summary: "Entries of the ledger, newest first",
    path: TEAM,
    query: FILTERS,
    fields: {
      ...FIELDS,
      actor: "Only by this member",
      action: "Only of this kind",
      limit: "200 when absent",
    },
    answers: { 200: { body: z.object({ team_id, entries: z.array(AUDIT_ENTRY).max(1_000) }) } },
    errors: ["not_a_team_member"],
    example: ({ teamId }) => ({ path: { id: teamId }, query: { action: "member.add", limit: 50 } }),
  },
  "GET /teams/:id/audit/verify": {
    tag: "Team audit",
    summary: "Check the whole chain",
    path: TEAM,
    fields: FIELDS,
    answers: {
      200: {
        body: z.object({
          team_id,
          valid: z.boolean().meta({ examples: [true] }),
          checked: count(4),
          ...HEAD,
          broken_seq: count(2).optional().describe(
            "Only when not valid: the first place that is not what it must be",
          ),
        }).meta({ id: "AuditReport" }),
      },
    },
    errors: ["not_a_team_member"],
    example: ({ teamId }) => ({ path: { id: teamId } }),
  },
  "GET /teams/:id/audit/export": {
    tag: "Team audit",
    summary: "The ledger with all that is needed to check it offline",
    description: "For an admin. Streamed, oldest first.",
    path: TEAM,
    query: PERIOD,
    fields: { ...FIELDS, ...TIMES },
    answers: {
      200: {
        headers: { "content-disposition": words('attachment; filename="audit.json"') },
        body: z.object({
          format: z.literal(AUDIT_FORMAT),
          team_id,
          from: time.optional(),
          to: time.optional(),
          ...HEAD,
          entries: z.array(AUDIT_ENTRY),
        }).meta({ id: "AuditExport" }),
      },
    },
    errors: ["not_a_team_member", "forbidden_role"],
    example: ({ teamId }) => ({ path: { id: teamId }, query: { from: "2026-01-01" } }),
  },
};
