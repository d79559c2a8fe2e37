/** Snapshots: upload, restore the latest or an earlier one, and the lineage. Spec 4.1. */

import { z } from "zod";
import type { AppContext } from "../../_shared/context.ts";
import { parse, parseBody } from "../../_shared/middleware/parse.ts";
import { credentialArguments } from "../../_shared/middleware/require_api_key.ts";
import { base64, digits, hash, sequence, text, timestamp } from "../../_shared/middleware/shapes.ts";
import { timed } from "../../_shared/middleware/timing.ts";
import {
  AGENT_ID_LENGTH_MAX,
  LINEAGE_LIMIT_DEFAULT,
  LINEAGE_LIMIT_MAX,
  PARENT_LENGTH_MAX,
  SNAPSHOT_BYTES_MAX,
} from "../domain/limits.ts";
import { type Receipt, storeSnapshot } from "../flows/store_snapshot.ts";

const agentId = text(AGENT_ID_LENGTH_MAX);

/** POST /snapshot: its body. */
export const UPLOAD = z.object({
  agent_id: agentId,
  sequence_number: sequence,
  // Absent above sequence 0 is `missing_parent_snapshot`, so presence is decided below.
  parent_snapshot: z.union([z.null(), z.literal(""), text(PARENT_LENGTH_MAX)]).optional(),
  policy_hash: hash("bad_policy_hash"),
  client_payload_hash: hash("bad_payload_hash"),
  ciphertext_b64: base64(SNAPSHOT_BYTES_MAX, "ciphertext_too_large"),
  byte_size: z.int().min(1),
  timestamp,
}).superRefine(({ sequence_number, parent_snapshot, ciphertext_b64, byte_size }, context) => {
  const refuse = (message: string, field: string) =>
    context.addIssue({ code: "custom", message, path: [field] });
  if (ciphertext_b64.length !== byte_size) refuse("byte_size_mismatch", "byte_size");
  else if (sequence_number > 0 && !parent_snapshot) refuse("missing_parent_snapshot", "parent_snapshot");
  else if (sequence_number === 0 && parent_snapshot === undefined) refuse("missing", "parent_snapshot");
  else if (sequence_number === 0 && parent_snapshot !== null) refuse("genesis_violation", "parent_snapshot");
});

/** Paths and queries of the restore routes. */
export const OF_AGENT = z.object({ agent_id: agentId });
export const AT_SEQUENCE = z.object({ agent_id: agentId, sequence: digits("bad_sequence") });
export const LINEAGE_PAGE = z.object({
  limit: z.string().regex(/^-?[0-9]{1,15}$/).transform(Number).meta({ wire: { type: "integer" } }).optional(),
});

/** What `api.read_snapshot` returns. */
interface FoundSnapshot {
  receipt: Receipt;
  object_name: string;
}

/** POST /snapshot: stores a checkpoint. 200 with its receipt, unwrapped. */
export async function createSnapshot(c: AppContext): Promise<Response> {
  const body = await parseBody(c, UPLOAD);
  const upload = {
    agentId: body.agent_id,
    sequence: body.sequence_number,
    parentPath: body.parent_snapshot ?? null,
    policyHash: body.policy_hash,
    payloadHash: body.client_payload_hash,
    ciphertext: body.ciphertext_b64,
    timestamp: body.timestamp,
  };
  const { platform, credential, settings } = c.var;
  const store = () => storeSnapshot(platform, credential, upload, settings);
  const { receipt, told } = await timed(c, "store", store);
  c.set("told", told);
  return c.json(receipt);
}

/** GET /snapshot/:agent_id/latest: 200 `{receipt, ciphertextUrl}`. Errors: `no_snapshots_for_agent`. */
export async function latestSnapshot(c: AppContext): Promise<Response> {
  const { agent_id } = await parse(c, OF_AGENT, c.req.param());
  return await restore(c, { p_agent_id: agent_id });
}

/** GET /snapshot/:agent_id/:sequence: the same for one sequence. Errors: `bad_sequence`, `snapshot_not_found`. */
export async function snapshotAtSequence(c: AppContext): Promise<Response> {
  const { agent_id, sequence } = await parse(c, AT_SEQUENCE, c.req.param());
  return await restore(c, { p_agent_id: agent_id, p_sequence_number: sequence });
}

/** GET /snapshot/:agent_id/lineage: 200, a bare array of lineage entries, newest first. `limit` is clamped. */
export async function lineage(c: AppContext): Promise<Response> {
  const { agent_id } = await parse(c, OF_AGENT, c.req.param());
  const { limit } = await parse(c, LINEAGE_PAGE, c.req.query());
  const entries = await c.var.platform.db.call<unknown[]>("list_lineage", {
    ...credentialArguments(c),
    p_agent_id: agent_id,
    p_limit: Math.min(Math.max(limit ?? LINEAGE_LIMIT_DEFAULT, 1), LINEAGE_LIMIT_MAX),
  });
  return c.json(entries);
}

async function restore(c: AppContext, which: { p_agent_id: string; p_sequence_number?: number }) {
  const { db, blobs } = c.var.platform;
  const found = await db.call<FoundSnapshot>("read_snapshot", { ...credentialArguments(c), ...which });
  c.var.countRead(1);
  return c.json({ receipt: found.receipt, ciphertextUrl: blobs.publicUrl(found.object_name) });
}
