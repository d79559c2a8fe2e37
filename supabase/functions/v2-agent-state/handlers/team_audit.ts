/** The audit ledger: list, verify, export. Spec 4.5; the encoding is in docs/audit.md. */

import { z } from "zod";
import type { AppContext } from "../../_shared/context.ts";
import { parse } from "../../_shared/middleware/parse.ts";
import { instant, pageLimit, text } from "../../_shared/middleware/shapes.ts";
import { streamJson } from "../../_shared/middleware/stream_json.ts";
import { AUDIT_FORMAT } from "../../_shared/domain/audit_format.ts";
import { AUDIT_LIMIT_DEFAULT, AUDIT_LIMIT_MAX, LABEL_LENGTH_MAX } from "../domain/limits.ts";
import { exportAudit, type Ledger, verifyAudit } from "../../_shared/flows/audit.ts";
import { teamArguments } from "../middleware/team_arguments.ts";

const TIMES = { from: instant.optional(), to: instant.optional() };
/** GET /teams/:id/audit: its query. */
export const FILTERS = z.object({
  actor: text(LABEL_LENGTH_MAX * 2).optional(),
  action: text(LABEL_LENGTH_MAX).optional(),
  ...TIMES,
  limit: pageLimit(AUDIT_LIMIT_MAX).optional(),
});
/** GET /teams/:id/audit/export: its query. */
export const PERIOD = z.object(TIMES);

/** GET /teams/:id/audit: 200 `{team_id, entries}`, newest first; `from` and `to` are inclusive. */
export async function listAudit(c: AppContext): Promise<Response> {
  const team = await teamArguments(c);
  const filters = await parse(c, FILTERS, c.req.query());
  return c.json(
    await c.var.platform.db.call<Record<string, unknown>>("list_audit", {
      ...team,
      p_actor: filters.actor ?? null,
      p_action: filters.action ?? null,
      p_from: filters.from ?? null,
      p_to: filters.to ?? null,
      p_limit: filters.limit ?? AUDIT_LIMIT_DEFAULT,
    }),
  );
}

/** GET /teams/:id/audit/verify: 200 `{team_id, valid, checked, head_seq, head_hash}`, with `broken_seq` if not valid. */
export async function verifyTeamAudit(c: AppContext): Promise<Response> {
  return c.json(await verifyAudit(c.var.platform.db, await teamLedger(c)));
}

/** GET /teams/:id/audit/export: 200, JSON with all that is needed to check it offline; streamed, oldest first. */
export async function exportTeamAudit(c: AppContext): Promise<Response> {
  const ledger = await teamLedger(c);
  const { from, to } = await parse(c, PERIOD, c.req.query());
  const { head, entries } = await exportAudit(c.var.platform.db, ledger, from ?? null, to ?? null);
  const description = {
    format: AUDIT_FORMAT,
    ...ledger.about,
    from,
    to,
    ...head,
  };
  c.header(
    "content-disposition",
    `attachment; filename="audit-${ledger.about.team_id}.json"`,
  );
  return streamJson(c, {
    before: `${JSON.stringify(description).slice(0, -1)},"entries":[`,
    items: entries,
    toJson: (entry) => JSON.stringify(entry),
    after: "]}",
  });
}

async function teamLedger(c: AppContext): Promise<Ledger> {
  const args = await teamArguments(c);
  return { verify: "verify_audit", export: "export_audit", args, about: { team_id: args.p_team_id } };
}
