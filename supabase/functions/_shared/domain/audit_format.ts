/** What those who only read or show an audit ledger have to know of its chain. */

/** What the encoding and an export call themselves. */
export const AUDIT_FORMAT = "v2-agent-state/audit/1";
/** Stands before the first entry. */
export const GENESIS_HASH = "0".repeat(64);

/** How far a chain reaches: all that has to be kept elsewhere to notice later that it was rewritten. */
export interface AuditHead {
  head_seq: number;
  head_hash: string;
}
