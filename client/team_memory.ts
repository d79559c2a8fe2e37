/**
 * An entry of a team's memory: AES-256-GCM under the team's key of its epoch. Inside is the canonical JSON of
 * `{"epoch","team_id","value"}`, so that an entry cannot be moved to another team or epoch.
 */

import { type Bytes, decodeBase64, decodeText, encodeText } from "./bytes.ts";
import { canonicalize, type Json } from "./canonical_json.ts";
import { open, seal } from "./cipher.ts";
import { IntegrityError, TooLargeError } from "./errors.ts";
import type { KeyRing } from "./team_key.ts";

const MEMORY_BYTES_MAX = 262_144;

/** An entry as the service has it. */
export interface StoredMemory {
  id: string;
  seq: number;
  rotation_seq: number;
  ciphertext_b64: string;
  author_id: string;
  created_at: string;
}

/** An entry that was read. Either `value` is there, checked, or `error` says why it is not. */
export interface TeamMemory {
  seq: number;
  /** Who sent it, says the service; within a team nobody signs. */
  author_id: string;
  created_at: string;
  rotation_seq: number;
  value?: Json;
  error?: IntegrityError;
}

/** Encrypts a value under the newest key of a ring. Throws {@link TooLargeError}. */
export async function sealMemory(value: Json, teamId: string, { epoch, keys }: KeyRing): Promise<Bytes> {
  if (value === undefined) throw new TypeError("An entry needs a value");
  const block = await seal(keys.get(epoch)!, encodeText(canonicalize({ epoch, team_id: teamId, value })));
  if (block.length <= MEMORY_BYTES_MAX) return block;
  throw new TooLargeError("chunk_too_large", `An entry has at most ${MEMORY_BYTES_MAX} bytes`);
}

/** Decrypts and checks an entry. Never throws for one that is not as it must be: others in the log are. */
export async function openMemory(stored: StoredMemory, teamId: string, ring: KeyRing): Promise<TeamMemory> {
  const { seq, author_id, created_at, rotation_seq } = stored;
  const shown = { seq, author_id, created_at, rotation_seq };
  try {
    return { ...shown, value: await openValue(stored, teamId, ring) };
  } catch (cause) {
    const message = "What was decrypted is not an entry";
    const unknown = () => new IntegrityError("decryption_failed", message, { cause });
    return { ...shown, error: cause instanceof IntegrityError ? cause : unknown() };
  }
}

async function openValue(stored: StoredMemory, teamId: string, ring: KeyRing): Promise<Json> {
  const key = ring.keys.get(stored.rotation_seq);
  if (key === undefined) {
    throw new IntegrityError("decryption_failed", `No key of epoch ${stored.rotation_seq}`);
  }
  const text = decodeText(await open(key, decodeBase64(stored.ciphertext_b64)));
  const { epoch, team_id, value } = JSON.parse(text);
  if (epoch === stored.rotation_seq && team_id === teamId) return value;
  throw new IntegrityError("lineage_broken", "The entry was made for another team or epoch");
}
