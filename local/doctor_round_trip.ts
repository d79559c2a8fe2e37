/**
 * Stores something in a deployment and takes it out again, as an agent does.
 *
 * It is the same snapshot and the same block at each visit, under a token of the doctor's own: what is repeated is
 * answered and not stored again, so all visits together leave a few dozen bytes. The token is no secret; should somebody
 * else have used it, a new one is.
 */

import { createHash } from "node:crypto";
import { ask, describe, type Seen } from "./doctor_http.ts";
import type { Outside } from "./doctor_outside.ts";
import { fail, type Finding, ok } from "./doctor_report.ts";

const TOKEN = "sov_proj_d0c70000-0000-4000-8000-000000000001";
const BYTES = new TextEncoder().encode("the doctor was here, and took this back");
const HASH = createHash("sha256").update(BYTES).digest("hex");
const LOG = "See the functions' log under the request_id.";

type Send = (method: string, path: string, body?: unknown) => Promise<Seen>;

/** Looks whether what is stored comes back to the byte, over the address that clients are given. */
export async function makeRoundTrip({ origin }: Outside): Promise<Finding[]> {
  const base = `${origin}/functions/v1/v2-agent-state`;
  const findings = await travel(base, TOKEN);
  return findings.every(({ state }) => state === "ok")
    ? findings
    : await travel(base, `sov_proj_${crypto.randomUUID()}`);
}

async function travel(base: string, token: string): Promise<Finding[]> {
  const send: Send = (method, path, body) =>
    ask(base + path, {
      method,
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
  return [await tripOfSnapshot(send), await tripOfBlock(send)];
}

async function tripOfSnapshot(send: Send): Promise<Finding> {
  const check = "a snapshot";
  const stored = await send("POST", "/snapshot", {
    agent_id: "doctor",
    sequence_number: 0,
    parent_snapshot: null,
    policy_hash: "0".repeat(64),
    client_payload_hash: HASH,
    ciphertext_b64: BYTES.toBase64(),
    byte_size: BYTES.length,
    timestamp: "2026-01-01T00:00:00.000Z",
  });
  if (stored.status !== 200) return fail(check, `cannot be stored: ${describe(stored)}`, LOG);
  const found = await send("GET", "/snapshot/doctor/latest");
  const address = found.body?.ciphertextUrl;
  if (typeof address !== "string") return fail(check, `cannot be found: ${describe(found)}`, LOG);
  // As a client does: without any credential.
  const taken = await ask(address);
  if (taken.status !== 200) {
    const mend = "Is the bucket agent-state public? Self-hosted: is PUBLIC_URL the outside address?";
    return fail(
      check,
      `is stored, but ${new URL(address).origin} does not hand it out: ${describe(taken)}`,
      mend,
    );
  }
  return createHash("sha256").update(taken.text).digest("hex") === HASH
    ? ok(check, "is stored, and comes back to the byte from its public address")
    : fail(
      check,
      "comes back with other bytes",
      "Does something in front change or cache what Storage answers?",
    );
}

async function tripOfBlock(send: Send): Promise<Finding> {
  const check = "a block";
  const chunk = { sequence_number: 0, block_hash: HASH, ciphertext_b64: BYTES.toBase64() };
  const stored = await send("POST", "/replicate", { chunks: [chunk], merkle_root: HASH });
  if (stored.status !== 200) return fail(check, `cannot be replicated: ${describe(stored)}`, LOG);
  const replayed = await send("GET", "/replay?since=-1");
  return replayed.body?.chunks?.[0]?.ciphertext_b64 === chunk.ciphertext_b64
    ? ok(check, "is replicated, and replayed to the byte")
    : fail(check, `is not replayed: ${describe(replayed)}`, LOG);
}
