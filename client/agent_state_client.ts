/** Snapshots: numbered checkpoints of an agent's state, each linked to the one before. Specification 4.1. */

import type { Json } from "./canonical_json.ts";
import type { Key } from "./cipher.ts";
import { ConflictError, IntegrityError, NotFoundError, TooLargeError } from "./errors.ts";
import { sha256Hex } from "./hash_chain.ts";
import { HighWater } from "./high_water.ts";
import { encodeBase64 } from "./bytes.ts";
import { createQueue } from "./queue.ts";
import { NO_POLICY, openDocument, sealDocument, type SnapshotDocument } from "./snapshot_document.ts";
import { createMemoryStore, type Store } from "./store.ts";
import { type ServiceOptions, Transport } from "./transport.ts";
import { checkLineage } from "./verify.ts";
import type { FoundSnapshot, LineageEntry, SnapshotReceipt } from "./wire.ts";

/** Ciphertext of one snapshot, in bytes. */
export const SNAPSHOT_BYTES_MAX = 262_144;
const LINEAGE_LIMIT_DEFAULT = 100;

/** Where the service is, and whose snapshots these are. */
export interface AgentStateOptions extends ServiceOptions {
  /** Names the agent; any text of up to 512 characters. */
  agentId: string;
  /** Remembers the highest sequence that was seen. Without one the alarm ends with the process. */
  store?: Store;
}

/** What a snapshot is made of. */
export interface SnapshotInput {
  key: Key;
  /** The agent's state: anything that JSON can hold. */
  payload: Json;
  /** Given together, or found out. */
  sequence?: number;
  parent?: string | null;
  timestamp?: string;
  policyHash?: string;
  signal?: AbortSignal;
}

/** A snapshot that was downloaded, decrypted and checked. */
export interface Restored {
  payload: Json;
  receipt: SnapshotReceipt;
  /** All that was encrypted, with what other clients may have added. */
  document: SnapshotDocument;
}

interface ReadOptions {
  key: Key;
  signal?: AbortSignal;
}

/** Stores and restores one agent's snapshots. The service never sees a key or a plaintext. */
export class AgentStateClient {
  readonly agentId: string;
  readonly #transport: Transport;
  readonly #path: string;
  readonly #highWater: HighWater;
  readonly #mark: string;
  readonly #inTurn = createQueue();
  #tip: SnapshotReceipt | undefined;

  constructor(options: AgentStateOptions) {
    this.agentId = options.agentId;
    this.#transport = new Transport(options);
    this.#path = `/snapshot/${encodeURIComponent(options.agentId)}`;
    this.#highWater = new HighWater(options.store ?? createMemoryStore());
    this.#mark = `seen-${sha256Hex(options.agentId).slice(0, 32)}`;
  }

  /**
   * Stores a checkpoint after the latest one. Calls on one client take their turn; another writer of the same agent
   * makes it throw {@link ConflictError} (`sequence_gap`, `sequence_conflict`), and the next call goes after theirs.
   * A call whose answer was lost is repeated with the same bytes, and charged once.
   */
  snapshot(input: SnapshotInput): Promise<SnapshotReceipt> {
    return this.#inTurn(async () => {
      if (input.payload === undefined) throw new TypeError("A snapshot needs a payload");
      const { sequence, parent } = await this.#place(input);
      const timestamp = input.timestamp ?? new Date().toISOString();
      const policy_hash = input.policyHash ?? NO_POLICY;
      const place = { agent_id: this.agentId, sequence_number: sequence, parent_snapshot: parent };
      const envelope = { ...place, policy_hash, timestamp };
      const sealed = await sealDocument(input.key, { ...envelope, active_context: input.payload });
      if (sealed.block.length > SNAPSHOT_BYTES_MAX) {
        const message = `A snapshot has at most ${SNAPSHOT_BYTES_MAX} bytes, this one ${sealed.block.length}`;
        throw new TooLargeError("ciphertext_too_large", message);
      }
      const body = {
        ...envelope,
        client_payload_hash: sealed.hash,
        ciphertext_b64: encodeBase64(sealed.block),
        byte_size: sealed.block.length,
      };
      return await this.#store(body, input.signal);
    });
  }

  /** The latest snapshot. Throws {@link NotFoundError} when there is none, and when something is not as it was stored. */
  async restore({ key, signal }: ReadOptions): Promise<Restored> {
    const seen = await this.#highWater.seen(this.#mark);
    const found = await this.#find("latest", signal).catch(async (error) => {
      if (error instanceof NotFoundError && seen !== undefined) {
        await this.#highWater.check(this.#mark, undefined);
      }
      throw error;
    });
    const restored = await this.#open(found, key, signal);
    await this.#highWater.check(this.#mark, markOf(found.receipt));
    return restored;
  }

  /** The snapshot with a number. Errors: as {@link restore}; `snapshot_not_found`. */
  async restoreAt({ sequence, key, signal }: ReadOptions & { sequence: number }): Promise<Restored> {
    const found = await this.#find(sequence, signal);
    if (found.receipt.sequence_number !== sequence) {
      const message = `Asked for ${sequence}, the service shows ${found.receipt.sequence_number}`;
      throw new IntegrityError("lineage_broken", message);
    }
    const restored = await this.#open(found, key, signal);
    await this.#highWater.witness(this.#mark, markOf(found.receipt));
    return restored;
  }

  /** The newest snapshots with their parents, newest first (at most 500). Checked to be one unbroken line. */
  async lineage(options: { limit?: number; signal?: AbortSignal } = {}): Promise<LineageEntry[]> {
    const { limit = LINEAGE_LIMIT_DEFAULT, signal } = options;
    const path = `${this.#path}/lineage?limit=${limit}`;
    const entries = await this.#transport.request<LineageEntry[]>("GET", path, { signal });
    checkLineage(entries);
    const newest = entries[0];
    await this.#highWater.check(this.#mark, newest === undefined ? undefined : markOf(newest));
    return entries;
  }

  /** Where the next snapshot goes. */
  async #place(
    { sequence, parent, signal }: SnapshotInput,
  ): Promise<{ sequence: number; parent: string | null }> {
    if (sequence === 0) return { sequence, parent: parent ?? null };
    if (sequence !== undefined) {
      return { sequence, parent: parent ?? (await this.#find(sequence - 1, signal)).receipt.storage_path };
    }
    this.#tip ??= await this.#latest(signal);
    if (this.#tip === undefined) return { sequence: 0, parent: null };
    return { sequence: this.#tip.sequence_number + 1, parent: this.#tip.storage_path };
  }

  async #latest(signal?: AbortSignal): Promise<SnapshotReceipt | undefined> {
    const latest = await this.#find("latest", signal).then(
      ({ receipt }) => receipt,
      (error) => {
        if (error instanceof NotFoundError) return undefined;
        throw error;
      },
    );
    await this.#highWater.check(this.#mark, latest === undefined ? undefined : markOf(latest));
    return latest;
  }

  async #store(
    body: { sequence_number: number; client_payload_hash: string; byte_size: number },
    signal?: AbortSignal,
  ): Promise<SnapshotReceipt> {
    try {
      const receipt = await this.#transport.request<SnapshotReceipt>("POST", "/snapshot", { body, signal });
      const fields = ["sequence_number", "client_payload_hash", "byte_size"] as const;
      if (fields.some((field) => receipt[field] !== body[field]) || receipt.agent_id !== this.agentId) {
        throw new IntegrityError("answer_mismatch", "The receipt is for something else than was sent");
      }
      this.#tip = receipt;
      await this.#highWater.witness(this.#mark, markOf(receipt));
      return receipt;
    } catch (error) {
      // Whatever happened, where the line ends now is not known here any more.
      this.#tip = undefined;
      if (error instanceof ConflictError) error.message += "; another writer has stored a snapshot";
      throw error;
    }
  }

  #find(which: "latest" | number, signal?: AbortSignal): Promise<FoundSnapshot> {
    return this.#transport.request<FoundSnapshot>("GET", `${this.#path}/${which}`, { signal });
  }

  async #open({ receipt, ciphertextUrl }: FoundSnapshot, key: Key, signal?: AbortSignal): Promise<Restored> {
    if (receipt.agent_id !== this.agentId) {
      throw new IntegrityError("lineage_broken", `The service shows a snapshot of ${receipt.agent_id}`);
    }
    const block = await this.#transport.download(ciphertextUrl, signal);
    const document = await openDocument(key, block, receipt);
    await this.#checkParent(document, signal);
    return { payload: document.active_context, receipt, document };
  }

  /** The parent that the document names, under the key's protection, must be the one that the service has. */
  async #checkParent(document: SnapshotDocument, signal?: AbortSignal): Promise<void> {
    if (document.sequence_number === 0) return;
    const parent = await this.#find(document.sequence_number - 1, signal).catch((error) => {
      if (error instanceof NotFoundError) return undefined;
      throw error;
    });
    if (parent?.receipt.storage_path !== document.parent_snapshot) {
      throw new IntegrityError(
        "lineage_broken",
        "The parent is not the snapshot that this one was made after",
      );
    }
  }
}

function markOf(shown: { sequence_number: number; client_payload_hash: string }) {
  return { sequence: shown.sequence_number, hash: shown.client_payload_hash };
}
