/**
 * Blocks that were made and are not yet known to have arrived, on durable storage.
 *
 * A block's ciphertext is written before it is ever sent, and sent from there each time. So a lost answer, or a crash
 * at any point, can only lead to the very same block being sent again, which the service answers like the first time.
 * The state names what counts: blocks are written first, then the state in one atomic write; a block that no state
 * names was never sent and never will be.
 */

import type { Bytes } from "./bytes.ts";
import { IntegrityError } from "./errors.ts";
import { nextRoot, sha256Hex } from "./hash_chain.ts";
import { readJson, type Store, writeJson } from "./store.ts";
import { type Cursor, START } from "./verify.ts";
import type { SealedBlock } from "./block.ts";

const STATE = "state";

interface State {
  version: 1;
  /** Blocks of another generation under the same numbers were given up. */
  generation: number;
  /** The last block that the service has. */
  confirmed: Cursor;
  /** The last block that was made. */
  last: Cursor;
  /** Up to here, blocks of this generation were removed. */
  swept: number;
}

/** A block that waits, as it is sent. */
export interface PendingBlock {
  sequence: number;
  hash: string;
  bytes: Bytes;
  /** The root after it. */
  root: string;
}

/** The durable queue of one log. Calls must not overlap. */
export class Outbox {
  readonly #store: Store;
  #state: State;

  private constructor(store: Store, state: State) {
    this.#store = store;
    this.#state = state;
  }

  /** Opens what a store holds, or starts anew. */
  static async open(store: Store): Promise<Outbox> {
    const state = await readJson<State>(store, STATE);
    if (state !== undefined && state.version !== 1) {
      throw new IntegrityError("outbox_damaged", "The store was written by a newer version");
    }
    const fresh: State = { version: 1, generation: 0, confirmed: START, last: START, swept: -1 };
    const outbox = new Outbox(store, state ?? fresh);
    await outbox.#sweep();
    return outbox;
  }

  /** The last block that the service is known to have. */
  get confirmed(): Cursor {
    return this.#state.confirmed;
  }

  /** The last block that was made here. */
  get last(): Cursor {
    return this.#state.last;
  }

  /** How many blocks wait. */
  get length(): number {
    return this.#state.last.sequence - this.#state.confirmed.sequence;
  }

  /** Adds blocks, all or none. Durable when it resolves. */
  async add(blocks: readonly SealedBlock[]): Promise<void> {
    if (blocks.length === 0) return;
    for (const block of blocks) await this.#store.write(this.#nameOf(block.sequence), block.bytes);
    const { sequence, root } = blocks.at(-1)!;
    await this.#save({ ...this.#state, last: { sequence, root } });
  }

  /** The blocks that wait, from the first on. Throws {@link IntegrityError} when the store is not as it was left. */
  async *pending(): AsyncGenerator<PendingBlock> {
    const { confirmed, last } = this.#state;
    let root = confirmed.root;
    for (let sequence = confirmed.sequence + 1; sequence <= last.sequence; sequence++) {
      const bytes = await this.#store.read(this.#nameOf(sequence));
      if (bytes === undefined) throw damaged(`block ${sequence} is missing`);
      const hash = sha256Hex(bytes);
      root = nextRoot(root, hash);
      yield { sequence, hash, bytes, root };
    }
    if (root !== last.root) throw damaged("the blocks do not make the root that was noted");
  }

  /** Notes that the service has everything up to here. */
  async confirm(through: Cursor): Promise<void> {
    await this.#save({ ...this.#state, confirmed: through });
    await this.#sweep();
  }

  /** Gives up what waits: the log goes on after `base` with `blocks`, in one step. */
  async replace(base: Cursor, blocks: readonly SealedBlock[]): Promise<void> {
    const before = this.#state;
    const generation = before.generation + 1;
    for (const block of blocks) await this.#store.write(nameOf(generation, block.sequence), block.bytes);
    const { sequence, root } = blocks.at(-1) ?? base;
    const last = { sequence, root };
    await this.#save({ version: 1, generation, confirmed: base, last, swept: base.sequence });
    for (let old = before.swept + 1; old <= before.last.sequence; old++) {
      await this.#store.remove(nameOf(before.generation, old));
    }
  }

  /** Removes blocks that have arrived. What a crash leaves behind is removed when the store is opened again. */
  async #sweep(): Promise<void> {
    const { swept, confirmed } = this.#state;
    if (swept >= confirmed.sequence) return;
    for (let sequence = swept + 1; sequence <= confirmed.sequence; sequence++) {
      await this.#store.remove(this.#nameOf(sequence));
    }
    await this.#save({ ...this.#state, swept: confirmed.sequence });
  }

  async #save(state: State): Promise<void> {
    await writeJson(this.#store, STATE, state);
    this.#state = state;
  }

  #nameOf(sequence: number): string {
    return nameOf(this.#state.generation, sequence);
  }
}

function nameOf(generation: number, sequence: number): string {
  return `block-${generation}-${sequence}`;
}

function damaged(what: string): IntegrityError {
  return new IntegrityError("outbox_damaged", `The outbox is damaged: ${what}`);
}
