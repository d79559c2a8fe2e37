/** The replication log: append, send, read back. Specification 4.2. */

import {
  BLOCK_BYTES_MAX,
  type MemoryRecord,
  openBlock,
  packRecords,
  sealBlock,
  type SealedBlock,
} from "./block.ts";
import { encodeBase64 } from "./bytes.ts";
import { type Key, usableKey } from "./cipher.ts";
import { ConflictError, IntegrityError, NotFoundError } from "./errors.ts";
import { Outbox, type PendingBlock } from "./outbox.ts";
import { createQueue } from "./queue.ts";
import { type LogBlock, readLog } from "./read_log.ts";
import type { Store } from "./store.ts";
import { type ServiceOptions, Transport } from "./transport.ts";
import type { Cursor } from "./verify.ts";
import type { LogHead } from "./wire.ts";

/** Ciphertext of one request; the service takes 8 MiB of JSON, base64 makes 4 bytes of 3. */
const BATCH_BYTES_MAX = 4 * 1024 * 1024;
const BATCH_BLOCKS_MAX = 1_000;
/** How often a flush gives way to other writers before it lets the caller decide. */
const RECONCILE_MAX = 10;

/** Two devices have written different blocks under the same numbers. */
export interface Divergence {
  /** What waits here and cannot go where it was meant to. */
  ours: MemoryRecord[];
  /** What the other device has written there. */
  theirs: MemoryRecord[];
}

/**
 * What to do about it: `append_ours` puts ours after theirs and loses nothing; `adopt_theirs` drops ours; records are
 * put after theirs in place of ours.
 */
export type Resolution = "append_ours" | "adopt_theirs" | MemoryRecord[];

/** Where the log is, its key, and where what waits is kept. */
export interface ReplicatorOptions extends ServiceOptions {
  key: Key;
  store: Store;
  /** Decides when two devices have diverged. Default: `append_ours`. It must not call the replicator. */
  resolve?: (divergence: Divergence) => Resolution | Promise<Resolution>;
}

/** What a flush did. */
export interface Flushed extends Cursor {
  /** Blocks that were sent. */
  sent: number;
}

type Progress = (sent: number, waiting: number) => void;

/** Writes one replication log, and reads it. */
export class Replicator {
  readonly #transport: Transport;
  readonly #options: ReplicatorOptions;
  readonly #outbox: Outbox;
  /** Changes of the outbox, one after another. */
  readonly #changing = createQueue();
  readonly #flushing = createQueue();

  private constructor(options: ReplicatorOptions, outbox: Outbox) {
    this.#transport = new Transport(options);
    this.#options = options;
    this.#outbox = outbox;
  }

  /** Opens the log on what the store holds. Asks the service nothing. */
  static async open(options: ReplicatorOptions): Promise<Replicator> {
    const key = await usableKey(options.key);
    return new Replicator({ ...options, key }, await Outbox.open(options.store));
  }

  /** Blocks that wait to be sent. */
  get waiting(): number {
    return this.#outbox.length;
  }

  /** The last block that the service is known to have. */
  get confirmed(): Cursor {
    return this.#outbox.confirmed;
  }

  /**
   * Encrypts records into blocks and keeps them, all or none; when it resolves they survive a crash. Sends nothing.
   * Returns the place of the last block.
   */
  append(records: readonly MemoryRecord[]): Promise<Cursor> {
    return this.#changing(async () => {
      await this.#outbox.add(await this.#sealAll(records, this.#outbox.last));
      return this.#outbox.last;
    });
  }

  /**
   * Sends what waits, in batches. When it resolves the service has everything that was appended before. Throws what the
   * service refuses with; what waits goes on waiting.
   */
  flush(options: { onProgress?: Progress; signal?: AbortSignal } = {}): Promise<Flushed> {
    return this.#flushing(async () => {
      let sent = 0;
      for (let reconciled = 0; this.#outbox.length > 0;) {
        const batch = await this.#changing(() => this.#takeBatch());
        try {
          await this.#send(batch, options.signal);
          sent += batch.length;
          const { sequence, root } = batch.at(-1)!;
          await this.#changing(() => this.#outbox.confirm({ sequence, root }));
          options.onProgress?.(sent, this.#outbox.length);
        } catch (error) {
          if (!isDivergence(error) || ++reconciled > RECONCILE_MAX) throw error;
          await this.#reconcile(options.signal);
        }
      }
      return { ...this.#outbox.confirmed, sent };
    });
  }

  /**
   * Reads the log from the start, or on from a cursor (a block that was yielded before), checking everything; see
   * `readLog`. Throws `RollbackError` when what the service once acknowledged here is gone.
   */
  pull(options: { after?: Cursor; signal?: AbortSignal } = {}): AsyncGenerator<LogBlock> {
    const { key } = this.#options;
    return readLog(this.#transport, { key, through: this.#outbox.confirmed, ...options });
  }

  /** Where the log stands at the service; undefined when it is empty. */
  async head(): Promise<LogHead | undefined> {
    return await this.#transport.request<LogHead>("GET", "/head").catch((error) => {
      if (error instanceof NotFoundError) return undefined;
      throw error;
    });
  }

  /** The records that wait, decrypted. */
  pending(): Promise<MemoryRecord[]> {
    return this.#changing(() => this.#openPending());
  }

  async #sealAll(records: readonly MemoryRecord[], after: Cursor): Promise<SealedBlock[]> {
    const blocks: SealedBlock[] = [];
    for (const each of packRecords(records)) {
      blocks.push(await sealBlock(this.#options.key, each, blocks.at(-1) ?? after));
    }
    return blocks;
  }

  async #takeBatch(): Promise<PendingBlock[]> {
    const batch: PendingBlock[] = [];
    let bytes = 0;
    for await (const block of this.#outbox.pending()) {
      batch.push(block);
      bytes += block.bytes.length;
      if (bytes > BATCH_BYTES_MAX - BLOCK_BYTES_MAX || batch.length === BATCH_BLOCKS_MAX) break;
    }
    return batch;
  }

  async #send(batch: readonly PendingBlock[], signal?: AbortSignal): Promise<void> {
    const { sequence, root } = batch.at(-1)!;
    const chunks = batch.map((block) => ({
      sequence_number: block.sequence,
      block_hash: block.hash,
      ciphertext_b64: encodeBase64(block.bytes),
    }));
    const answer = await this.#transport.request<Record<string, unknown>>("POST", "/replicate", {
      body: { chunks, merkle_root: root },
      signal,
    });
    if (answer.idempotent === true) return;
    if (answer.sequence_number !== sequence || answer.merkle_root !== root) {
      throw new IntegrityError("answer_mismatch", "The service acknowledged something else than was sent");
    }
  }

  /** Goes on after what other devices have written: what waits is re-encrypted to come after it, or dropped. */
  async #reconcile(signal?: AbortSignal): Promise<void> {
    const { key } = this.#options;
    const after = this.#outbox.confirmed;
    const log = readLog(this.#transport, { key, after, through: after, signal });
    const theirs: MemoryRecord[] = [];
    await this.#changing(async () => {
      const waiting = this.#outbox.pending();
      let [head, common, diverged] = [after, after, false];
      let mine = await waiting.next();
      for await (const block of log) {
        head = { sequence: block.sequence, root: block.root };
        // The first of ours may have arrived without our hearing of it.
        diverged ||= mine.done === true || mine.value.hash !== block.hash;
        if (diverged) {
          // A log may be larger than memory; only a resolver wants to see it.
          if (this.#options.resolve !== undefined) theirs.push(...block.records);
        } else {
          common = head;
          mine = await waiting.next();
        }
      }
      await this.#outbox.confirm(common);
      if (diverged) await this.#resolve(theirs, head);
    });
  }

  async #resolve(theirs: MemoryRecord[], head: Cursor): Promise<void> {
    const ours = await this.#openPending();
    const resolution = await this.#options.resolve?.({ ours, theirs }) ?? "append_ours";
    const kept = resolution === "append_ours" ? ours : resolution === "adopt_theirs" ? [] : resolution;
    await this.#outbox.replace(head, await this.#sealAll(kept, head));
  }

  async #openPending(): Promise<MemoryRecord[]> {
    const records: MemoryRecord[] = [];
    let previous = this.#outbox.confirmed;
    for await (const block of this.#outbox.pending()) {
      records.push(...await openBlock(this.#options.key, block.bytes, previous));
      previous = block;
    }
    return records;
  }
}

/** Both mean that the log is not where we thought: something else is under our numbers, or they leave a gap. */
function isDivergence(error: unknown): boolean {
  return error instanceof ConflictError && ["split_brain_detected", "sequence_gap"].includes(error.code);
}
