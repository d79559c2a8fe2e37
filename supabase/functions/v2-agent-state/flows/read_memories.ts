/** Reads a run of a team's shared memory. Spec 4.5. */

import type { Database, Session } from "../../_shared/platform/mod.ts";
import { READ_PAGE_BYTES } from "../domain/limits.ts";
import { openRun, type Run } from "./read_run.ts";

/** One entry of the memory, with the head of the memory it is in. */
export interface TeamMemory {
  id: string;
  seq: number;
  rotation_seq: number;
  ciphertext: Uint8Array;
  /** Null when the author's account was removed. */
  author_id: string | null;
  created_at: string;
  head_seq: number;
}

/** Opens a run of the entries after `since`; each call checks the membership anew. */
export function openMemoryRun(
  db: Database,
  session: Session,
  teamId: string,
  page: { since: number; limit: number },
): Promise<Run<TeamMemory>> {
  const fetchPiece = (since: number, limit: number) =>
    db.rows<TeamMemory>("read_memories", {
      p_subject: session.subject,
      p_email: session.email,
      p_team_id: teamId,
      p_since: since,
      p_limit: limit,
      p_bytes_max: READ_PAGE_BYTES,
    }, ["ciphertext"]);
  const range = { ...page, before: Number.MAX_SAFE_INTEGER };
  return openRun(range, fetchPiece, (memory) => ({ at: memory.seq, head: memory.head_seq }));
}
