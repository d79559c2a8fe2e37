/** Fresh callers and well-formed requests: every test makes its own, none is shared. */

import { Buffer } from "node:buffer";
import { createHash, randomBytes } from "node:crypto";
import { maskKey, mintLiveKey } from "../../supabase/functions/_shared/domain/credential.ts";
import type { World } from "./harness.ts";

/** The policy hash until policies are enforced, and the root of an empty chain. */
export const ZERO_HASH = "0".repeat(64);

/** SHA-256 in hex. */
export function sha256Hex(data: Uint8Array | string): string {
  return createHash("sha256").update(data).digest("hex");
}

/** A new project token. */
export function newProjectToken(): string {
  return `sov_proj_${crypto.randomUUID()}`;
}

/** A paid key with its account. */
export interface PaidKey {
  token: string;
  keyId: string;
  accountId: string;
  subject: string;
}

/** A new user with credits (milli-cents) and a key. */
export async function newPaidKey(world: World, creditsMilli = 1_000_000_000): Promise<PaidKey> {
  const subject = `user-${crypto.randomUUID()}`;
  const { account_id } = await world.platform.db.call<{ account_id: string }>("grant_credits", {
    p_subject: subject,
    p_amount_milli: Math.max(creditsMilli, 1),
    p_actor: "test",
    p_note: "opening balance",
    p_reference: crypto.randomUUID(),
  });
  if (creditsMilli === 0) await emptyAccount(world, account_id);
  const { token, keyId } = await newKeyOf(world, account_id);
  return { token, keyId, accountId: account_id, subject };
}

/** One more key of an account. */
export async function newKeyOf(world: World, accountId: string): Promise<{ token: string; keyId: string }> {
  const token = mintLiveKey((count) => randomBytes(count));
  const { rows } = await world.sql.query(
    "insert into app.api_keys (account_id, name, key_hash, masked_key) values ($1, 'test', $2, $3) returning id",
    [accountId, createHash("sha256").update(token).digest(), maskKey(token)],
  );
  return { token, keyId: rows[0].id };
}

/** Spends the one milli-cent that an account cannot be opened without. */
async function emptyAccount(world: World, accountId: string): Promise<void> {
  await world.sql.query(
    `with spent as (update app.accounts set credits_milli = 0 where id = $1)
     insert into app.credit_ledger (account_id, kind, amount_milli, bytes) values ($1, 'replication', -1, 1)`,
    [accountId],
  );
}

/** Balance of an account in milli-cents. */
export async function balanceOf(world: World, accountId: string): Promise<number> {
  const { rows } = await world.sql.query("select credits_milli from app.accounts where id = $1", [accountId]);
  return Number(rows[0].credits_milli);
}

/** Lets the time pass that uploads of an account have to be finished in. */
export async function endLeases(world: World, { accountId }: { accountId: string }): Promise<void> {
  await world.sql.query(
    `update app.snapshot_attempts set lease_expires_at = now() - interval '1 second'
      where snapshot_id in (select id from app.snapshots where account_id = $1)`,
    [accountId],
  );
}

/** A well-formed POST /snapshot; `over` replaces fields (undefined removes one). */
export function snapshotBody(
  over: Record<string, unknown> = {},
  ciphertext?: Uint8Array,
): Record<string, unknown> {
  const bytes = ciphertext ?? randomBytes(64);
  const sequence = over.sequence_number ?? 0;
  return {
    agent_id: "agent",
    sequence_number: sequence,
    parent_snapshot: sequence === 0 ? null : "the/previous/storage/path",
    policy_hash: ZERO_HASH,
    client_payload_hash: randomBytes(32).toString("hex"),
    ciphertext_b64: Buffer.from(bytes).toString("base64"),
    byte_size: bytes.length,
    timestamp: "2026-11-20T12:00:00.000Z",
    ...over,
  };
}

/** A well-formed chunk of a replication request. */
export function chunk(
  sequence: number,
  block: Uint8Array | string = randomBytes(64),
): Record<string, unknown> {
  const bytes = Buffer.from(block);
  return {
    sequence_number: sequence,
    block_hash: sha256Hex(bytes),
    ciphertext_b64: bytes.toString("base64"),
  };
}

/** A well-formed POST /replicate. */
export function replicateBody(...chunks: Record<string, unknown>[]): Record<string, unknown> {
  return { chunks, merkle_root: sha256Hex(JSON.stringify(chunks)) };
}
