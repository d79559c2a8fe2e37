/** A vault's audit ledger: list, verify, export. The encoding is in docs/audit.md. */

import { z } from "zod";
import type { AppContext } from "../../_shared/context.ts";
import { AUDIT_FORMAT } from "../../_shared/domain/audit_format.ts";
import { exportAudit, type Ledger, verifyAudit } from "../../_shared/flows/audit.ts";
import { parse } from "../../_shared/middleware/parse.ts";
import { digits, instant } from "../../_shared/middleware/shapes.ts";
import { streamJson } from "../../_shared/middleware/stream_json.ts";
import { AUDIT_LIMIT_DEFAULT, AUDIT_LIMIT_MAX } from "../domain/limits.ts";
import { vaultArguments } from "../middleware/vault_arguments.ts";

export const PAGE = z.object({
  limit: digits().refine((limit) => limit >= 1 && limit <= AUDIT_LIMIT_MAX).optional(),
});
export const PERIOD = z.object({ from: instant.optional(), to: instant.optional() });

/** GET /api/vault/:id/audit: 200 `{vault_id, entries}`, newest first. */
export async function listVaultAudit(c: AppContext): Promise<Response> {
  const vault = await vaultArguments(c);
  const { limit } = await parse(c, PAGE, c.req.query());
  const args = { ...vault, p_limit: limit ?? AUDIT_LIMIT_DEFAULT };
  return c.json(await c.var.platform.db.call<Record<string, unknown>>("list_vault_audit", args));
}

/** GET /api/vault/:id/audit/verify: 200 `{vault_id, valid, checked, head_seq, head_hash}`, `broken_seq` if not valid. */
export async function verifyVaultAudit(c: AppContext): Promise<Response> {
  return c.json(await verifyAudit(c.var.platform.db, await vaultLedger(c)));
}

/** GET /api/vault/:id/audit/export: 200, JSON with all that is needed to check it offline; streamed, oldest first. */
export async function exportVaultAudit(c: AppContext): Promise<Response> {
  const ledger = await vaultLedger(c);
  const { from, to } = await parse(c, PERIOD, c.req.query());
  const { head, entries } = await exportAudit(c.var.platform.db, ledger, from ?? null, to ?? null);
  const description = { format: AUDIT_FORMAT, ...ledger.about, from, to, ...head };
  c.header("content-disposition", `attachment; filename="audit-${ledger.about.vault_id}.json"`);
  return streamJson(c, {
    before: `${JSON.stringify(description).slice(0, -1)},"entries":[`,
    items: entries,
    toJson: (entry) => JSON.stringify(entry),
    after: "]}",
  });
}

async function vaultLedger(c: AppContext): Promise<Ledger> {
  const args = await vaultArguments(c);
  return {
    verify: "verify_vault_audit",
    export: "export_vault_audit",
    args,
    about: { vault_id: args.p_vault_id },
  };
}
