/** The ledger of a team. Spec 4.5; docs/audit.md. */

import { z } from "zod";
import { AUDIT_ENTRY, CHAIN_REPORT, HEAD } from "../../_shared/reference/audit.ts";
import type { Operations } from "../../_shared/reference/operation.ts";
import { time, uuid, words } from "../../_shared/reference/shapes.ts";
import { AUDIT_FORMAT } from "../../_shared/domain/audit_format.ts";
import { FILTERS, PERIOD } from "../handlers/team_audit.ts";
import { TEAM } from "../middleware/team_arguments.ts";
import { type Scene, SHOWN } from "./scene.ts";

const team_id = uuid(SHOWN.teamId);
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
          ...CHAIN_REPORT,
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
