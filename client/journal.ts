/**
 * A state that several processes share through a replication log: each change is an entry, and the state is what comes of
 * applying all of them in the order of the log. The adapters stand on it.
 */

import type { Json } from "./canonical_json.ts";
import { Assembler, type Entry, toRecords } from "./entries.ts";
import { isTransient } from "./errors.ts";
import { createQueue } from "./queue.ts";
import type { Replicator } from "./replicator.ts";
import { type Cursor, START } from "./verify.ts";

/** What the entries are called, and what they do to a state. */
export interface JournalOptions<State> {
  log: Replicator;
  /** Several journals share a log when they have different kinds. */
  kind: string;
  create(): State;
  apply(state: State, change: Json): void | Promise<void>;
}

/** Changes a state, and reads it. Everything is kept in memory while it is open. */
export class Journal<State> {
  readonly #options: JournalOptions<State>;
  readonly #inTurn = createQueue();
  readonly #assembler: Assembler;
  readonly #entries: Entry[] = [];
  readonly #state: State;
  #cursor: Cursor = START;
  #wasRead = false;

  constructor(options: JournalOptions<State>) {
    this.#options = options;
    this.#assembler = new Assembler((kind) => kind === options.kind);
    this.#state = options.create();
  }

  /**
   * Adds a change. When it resolves the change is in the outbox's store; it has been sent too, unless the service is
   * away: then it goes with the next call. Throws what the service refuses with.
   */
  append(change: Json): Promise<void> {
    return this.#inTurn(async () => {
      await this.#options.log.append(toRecords(this.#options.kind, change));
      await this.#flush();
    });
  }

  /** The state after every change there is, those that wait to be sent included. Do not change it. */
  read(): Promise<State> {
    return this.#inTurn(async () => {
      const { log, create, apply } = this.#options;
      if (log.waiting > 0) await this.#flush();
      await this.#catchUp();
      if (log.waiting === 0) return this.#state;
      const state = create();
      for (const { value } of [...this.#entries, ...await this.#waiting()]) await apply(state, value);
      return state;
    });
  }

  async #flush(): Promise<void> {
    await this.#options.log.flush().catch((error) => {
      if (!isTransient(error)) throw error;
    });
  }

  /** Reads what is new. While the service is away, what was read before is what there is. */
  async #catchUp(): Promise<void> {
    try {
      for await (const block of this.#options.log.pull({ after: this.#cursor })) {
        for (const record of block.records) {
          const entry = this.#assembler.add(record);
          if (entry === undefined) continue;
          this.#entries.push(entry);
          await this.#options.apply(this.#state, entry.value);
        }
        this.#cursor = { sequence: block.sequence, root: block.root };
      }
      this.#wasRead = true;
    } catch (error) {
      if (!this.#wasRead || !isTransient(error)) throw error;
    }
  }

  async #waiting(): Promise<Entry[]> {
    const { log, kind } = this.#options;
    const assembler = new Assembler((each) => each === kind);
    return (await log.pending()).map((record) => assembler.add(record)).filter((entry) =>
      entry !== undefined
    );
  }
}
