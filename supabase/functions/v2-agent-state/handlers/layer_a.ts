/** Layer A: what the server can see of an agent's log, and the log as envelopes. Spec 4.3. */

import { z } from "zod";
import type { AppContext } from "../../_shared/context.ts";
import { encodeBase64, encodeHex } from "../../_shared/domain/bytes.ts";
import { parse } from "../../_shared/middleware/parse.ts";
import { digits, pageLimit, place } from "../../_shared/middleware/shapes.ts";
import { streamJson } from "../../_shared/middleware/stream_json.ts";
import { splitPackedBlock } from "../domain/envelope.ts";
import { ENVELOPES_LIMIT_DEFAULT, ENVELOPES_LIMIT_MAX } from "../domain/limits.ts";
import { type LogEntry, openLogRun } from "../flows/read_log.ts";
import { readMetadata } from "../flows/read_together.ts";

/** GET /envelopes: its query. */
export const ENVELOPES_PAGE = z.object({
  limit: pageLimit(ENVELOPES_LIMIT_MAX).optional(),
  since: place.optional(),
  before: digits().optional(),
});

/** GET /metadata: 200 with the aggregates of section 2.6. */
export async function metadata(c: AppContext): Promise<Response> {
  return c.json(await readMetadata(c.get("platform"), c.get("credential")));
}

/**
 * GET /envelopes: 200, a bare array in order, streamed. `x-result-count` is its length; `x-next-cursor` the last
 * sequence number, to pass as `since`, or empty when there is nothing after it.
 */
export async function envelopes(c: AppContext): Promise<Response> {
  const page = await parse(c, ENVELOPES_PAGE, c.req.query());
  const run = await openLogRun(c.var.platform.db, c.var.credential, {
    since: page.since ?? -1,
    before: page.before ?? Number.MAX_SAFE_INTEGER,
    limit: page.limit ?? ENVELOPES_LIMIT_DEFAULT,
  });
  c.var.countRead(1);
  c.header("x-result-count", String(run.count));
  c.header("x-next-cursor", run.hasMore ? String(run.last) : "");
  return streamJson(c, { before: "[", items: run.entries, toJson: showEnvelope, after: "]" });
}

/** Of all the values only the client's timestamp is not ours, so only it is escaped. */
function showEnvelope(entry: LogEntry): string {
  const { iv, ciphertext } = splitPackedBlock(entry.ciphertext);
  return `{"ciphertext":"${encodeBase64(ciphertext)}","iv":"${encodeBase64(iv)}",` +
    `"clientPayloadHash":"${encodeHex(entry.payload_hash ?? entry.block_hash)}",` +
    `"sequenceNumber":${entry.sequence_number},` +
    `"timestamp":${JSON.stringify(entry.client_timestamp ?? entry.created_at)}}`;
}
