/**
 * A rotation of a team's key in two steps, so that a crash between them loses nothing: the new key is wrapped for
 * everybody who stays and kept; then it is committed. It names the epoch that it ends, so it can happen only once.
 */

import { AgentStateError, ConflictError, isTransient } from "./errors.ts";
import { readJson, type Store, writeJson } from "./store.ts";
import { type KeyRing, nextKeyRing, wrapKeyRing } from "./team_key.ts";

const NAME = "rotation";

/** What a rotation is for. */
export interface RotationOptions {
  /** Who is removed. */
  revoke?: string;
  reason?: string;
  /** Public keys of members that this client has not granted itself. */
  publicKeys?: Record<string, string>;
}

/** A rotation that was prepared: what is sent, and nothing that could be read without a member's private key. */
interface Rotation {
  revoke_member_id?: string;
  reason?: string;
  rotation_seq: number;
  grants: { member_id: string; wrapped_dek: string }[];
}

/** Makes the next key, wraps it for `staying`, and keeps that. Throws `missing_public_keys`. */
export async function prepareRotation(
  store: Store,
  ring: KeyRing,
  staying: readonly string[],
  publicKeys: Record<string, string>,
  { revoke, reason }: RotationOptions,
): Promise<void> {
  const missing = staying.filter((id) => !Object.hasOwn(publicKeys, id));
  if (missing.length > 0) {
    const message = `The public keys of ${missing.join(", ")} are needed in publicKeys`;
    throw new AgentStateError("missing_public_keys", message, { details: { missing } });
  }
  const next = await nextKeyRing(ring);
  const grants = await Promise.all(
    staying.map(async (id) => ({ member_id: id, wrapped_dek: await wrapKeyRing(next, publicKeys[id]!) })),
  );
  const rotation: Rotation = {
    rotation_seq: ring.epoch,
    grants,
    ...(revoke === undefined ? {} : { revoke_member_id: revoke }),
    ...(reason === undefined ? {} : { reason }),
  };
  await writeJson(store, NAME, rotation);
}

/** Whether a rotation was prepared and not heard of. */
export async function isRotationPending(store: Store): Promise<boolean> {
  return await store.read(NAME) !== undefined;
}

/**
 * Sends the prepared rotation. `readWrapped` gives the caller's own wrapped key, by which one that happened without our
 * hearing of it is recognised. What is refused for good is forgotten, and has to be prepared anew.
 */
export async function commitRotation(
  store: Store,
  memberId: string,
  send: (body: unknown) => Promise<unknown>,
  readWrapped: () => Promise<string>,
): Promise<void> {
  const rotation = (await readJson<Rotation>(store, NAME))!;
  const own = rotation.grants.find(({ member_id }) => member_id === memberId)?.wrapped_dek;
  try {
    await send(rotation);
  } catch (error) {
    if (isTransient(error) || !(error instanceof AgentStateError)) throw error;
    const happened = error instanceof ConflictError && own === await readWrapped();
    if (!happened) {
      await store.remove(NAME);
      throw error;
    }
  }
  await store.remove(NAME);
}
