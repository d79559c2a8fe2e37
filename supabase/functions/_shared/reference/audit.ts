/** The pieces of an audit ledger in the reference, of a team or of a vault. docs/audit.md. */

import { z } from "zod";
import { count, sha256, time, uuid, words } from "./shapes.ts";

/** How far the ledger reaches. */
export const HEAD = {
  head_seq: z.int().min(-1).meta({ examples: [3] }).describe("The newest entry's `seq`"),
  head_hash: sha256().describe("The newest entry's hash"),
};

/** One entry. */
export const AUDIT_ENTRY = z.object({
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

/** What a check of the whole chain says, besides whose it is. */
export const CHAIN_REPORT = {
  valid: z.boolean().meta({ examples: [true] }),
  checked: count(4),
  ...HEAD,
  broken_seq: count(2).optional().describe(
    "Only when not valid: the first place that is not what it must be",
  ),
};
