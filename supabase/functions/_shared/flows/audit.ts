/** Walks an audit ledger in pieces. Spec 4.5. */

import { decodeHex } from "../domain/bytes.ts";
import type { Database, SqlArguments } from "../platform/mod.ts";
import { type AuditHead, GENESIS_HASH } from "../domain/audit_format.ts";
import { AUDIT_PIECE } from "../domain/limits.ts";

/** Whose ledger it is: the functions that read it, what they are called with, and how answers name it. */
export interface Ledger {
  verify: string;
  export: string;
  args: SqlArguments;
  about: Record<string, string>;
}

/** What a check found. `broken_seq` is the first place that is not what it must be. */
export interface AuditReport {
  valid: boolean;
  checked: number;
  head_seq: number;
  head_hash: string;
  broken_seq?: number;
}

/** What `api.verify_audit` returns. */
interface CheckedPiece extends AuditHead {
  checked: number;
  last_seq: number;
  last_hash: string;
  broken_seq: number | null;
}

/**
 * Recomputes the whole chain in the database. That the last entry is the head shows that none was cut off.
 * Errors: those of whoever may not see it.
 */
export async function verifyAudit(db: Database, ledger: Ledger): Promise<AuditReport> {
  let checked = 0;
  let place = { last_seq: -1, last_hash: GENESIS_HASH };
  for (;;) {
    const piece: CheckedPiece = await db.call(ledger.verify, {
      ...ledger.args,
      p_after_seq: place.last_seq,
      p_prev_hash: decodeHex(place.last_hash),
      p_limit: AUDIT_PIECE,
    });
    checked += piece.checked;
    place = piece;
    if (piece.broken_seq === null && piece.checked === AUDIT_PIECE) continue;
    const broken = piece.broken_seq ?? findBrokenEnd(piece);
    const { head_seq, head_hash } = piece;
    const found = broken === undefined ? {} : { broken_seq: broken };
    return {
      ...ledger.about,
      valid: broken === undefined,
      checked,
      head_seq,
      head_hash,
      ...found,
    };
  }
}

/** The first place that is missing before the head, or too much after it; undefined when the last entry is it. */
function findBrokenEnd({ last_seq, last_hash, head_seq, head_hash }: CheckedPiece): number | undefined {
  if (last_seq !== head_seq) return Math.min(last_seq, head_seq) + 1;
  return last_hash === head_hash ? undefined : Math.max(last_seq, 0);
}

/** One entry as it is shown. */
export type ShownEntry = Record<string, unknown> & { seq: number };

/** Entries of a period, oldest first, and the head at the time of asking. Errors: those of whoever may not see it. */
export async function exportAudit(
  db: Database,
  ledger: Ledger,
  from: string | null,
  to: string | null,
): Promise<{ head: AuditHead; entries: AsyncGenerator<ShownEntry> }> {
  const fetchPiece = (after: number) =>
    db.call<AuditHead & { entries: ShownEntry[] }>(ledger.export, {
      ...ledger.args,
      p_after_seq: after,
      p_from: from,
      p_to: to,
      p_limit: AUDIT_PIECE,
    });
  const first = await fetchPiece(-1);
  const { head_seq, head_hash } = first;
  async function* generate(): AsyncGenerator<ShownEntry> {
    for (let piece = first.entries; piece.length > 0;) {
      // What was appended while we were sending belongs to another head.
      yield* piece.filter((entry) => entry.seq <= head_seq);
      const last = piece.at(-1)!.seq;
      piece = piece.length < AUDIT_PIECE || last >= head_seq ? [] : (await fetchPiece(last)).entries;
    }
  }
  return { head: { head_seq, head_hash }, entries: generate() };
}
