/**
 * The rollback alarm: the highest number that was seen of something, and its hash. A service that shows less later, or
 * the same number with another hash, has lost or rewritten what it acknowledged.
 */

import { RollbackError } from "./errors.ts";
import { readJson, type Store, writeJson } from "./store.ts";

/** A number with the hash of what it numbers. */
export interface Mark {
  sequence: number;
  hash: string;
}

/** Remembers marks under names, in a store. */
export class HighWater {
  readonly #store: Store;

  constructor(store: Store) {
    this.#store = store;
  }

  /** What was seen, or undefined. */
  async seen(name: string): Promise<Mark | undefined> {
    return await readJson<Mark>(this.#store, name);
  }

  /** Compares the newest there is with what was seen, and remembers it. `shown` is undefined for nothing at all. */
  async check(name: string, shown: Mark | undefined): Promise<void> {
    const seen = await this.seen(name);
    if (seen !== undefined) {
      const now = shown?.sequence ?? "nothing";
      const lost = shown === undefined || shown.sequence < seen.sequence;
      const rewritten = shown?.sequence === seen.sequence && shown.hash !== seen.hash;
      if (lost || rewritten) {
        const what = lost ? `the service shows ${now}` : "the service shows another one under that number";
        throw new RollbackError(`Number ${seen.sequence} was seen here before; now ${what}`, { seen, shown });
      }
    }
    if (shown !== undefined && shown.sequence !== seen?.sequence) await writeJson(this.#store, name, shown);
  }

  /** Compares something older with what was seen, if that is the same number, and remembers it if it is newer. */
  async witness(name: string, shown: Mark): Promise<void> {
    const seen = await this.seen(name);
    if (seen === undefined || shown.sequence >= seen.sequence) await this.check(name, shown);
  }
}
