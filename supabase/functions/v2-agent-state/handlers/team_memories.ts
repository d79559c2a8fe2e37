/** A team's shared memory, and the log of what was synced. Spec 4.5. */

import { z } from "zod";
import type { AppContext } from "../../_shared/context.ts";
import { encodeBase64 } from "../../_shared/domain/bytes.ts";
import { parse, parseBody } from "../../_shared/middleware/parse.ts";
import { base64, epoch, pageLimit, place, text } from "../../_shared/middleware/shapes.ts";
import { streamJson } from "../../_shared/middleware/stream_json.ts";
import { LABEL_LENGTH_MAX, MEMORIES_LIMIT_MAX, MEMORY_BYTES_MAX } from "../domain/limits.ts";
import { openMemoryRun, type TeamMemory } from "../flows/read_memories.ts";
import { teamArguments } from "../middleware/team_arguments.ts";

/** POST and GET /teams/:id/memories: the body and the query. */
export const MEMORY = z.object({
  ciphertext_b64: base64(MEMORY_BYTES_MAX, "chunk_too_large"),
  agent_key: text(LABEL_LENGTH_MAX).nullish(),
  rotation_seq: epoch,
});
export const MEMORIES_PAGE = z.object({
  since: place.optional(),
  limit: pageLimit(MEMORIES_LIMIT_MAX).optional(),
});

type Json = Record<string, unknown>;

/** POST /teams/:id/memories: appends an entry. 201 `{id, seq, rotation_seq, created_at}`. */
export async function writeMemory(c: AppContext): Promise<Response> {
  const team = await teamArguments(c);
  const body = await parseBody(c, MEMORY);
  const { told, ...memory } = await c.var.platform.db.call<Json & { told: boolean }>("write_memory", {
    ...team,
    p_memory_id: crypto.randomUUID(),
    p_ciphertext: body.ciphertext_b64,
    p_agent_key: body.agent_key ?? null,
    p_rotation_seq: body.rotation_seq ?? null,
    p_elapsed_ms: performance.now() - c.var.startedAt,
  });
  c.set("told", told);
  return c.json(memory, 201);
}

/** GET /teams/:id/memories: 200 `{team_id, memories, has_more}`, streamed; entries after `since`, oldest first. */
export async function listMemories(c: AppContext): Promise<Response> {
  const { p_team_id } = await teamArguments(c);
  const page = await parse(c, MEMORIES_PAGE, c.req.query());
  const run = await openMemoryRun(c.var.platform.db, c.var.session, p_team_id, {
    since: page.since ?? -1,
    limit: page.limit ?? MEMORIES_LIMIT_MAX,
  });
  return streamJson(c, {
    before: `{"team_id":"${p_team_id}","memories":[`,
    items: run.entries,
    toJson: showMemory,
    after: `],"has_more":${run.hasMore}}`,
  });
}

/** GET /teams/:id/sync-log: 200 `{team_id, entries}`, the newest 200. */
export async function listSyncLog(c: AppContext): Promise<Response> {
  return c.json(await c.var.platform.db.call<Json>("list_sync_log", await teamArguments(c)));
}

/** The author's id is the identity provider's to choose; all else is ours and needs no escaping. */
function showMemory(memory: TeamMemory): string {
  return `{"id":"${memory.id}","seq":${memory.seq},"rotation_seq":${memory.rotation_seq},` +
    `"ciphertext_b64":"${encodeBase64(memory.ciphertext)}","author_id":${JSON.stringify(memory.author_id)},` +
    `"byte_size":${memory.ciphertext.length},"created_at":"${memory.created_at}"}`;
}
