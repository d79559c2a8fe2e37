/** A store in IndexedDB, for browsers and their workers. Entry `indexeddb-store` of the package. */

import { StoreInUseError } from "./errors.ts";
import type { Store } from "./store.ts";

const TABLE = "values";

/** A store in IndexedDB, and its end. */
export interface BrowserStore extends Store {
  close(): Promise<void>;
}

/**
 * Opens the store with a name. One tab or worker holds it at a time (Web Locks); another gets {@link StoreInUseError}.
 * Ask for `navigator.storage.persist()` so that the browser does not clear it when the disk is full.
 */
export async function openIndexedDbStore(name = "agent-state"): Promise<BrowserStore> {
  const unlock = await lock(name);
  try {
    const database = await openDatabase(name);
    return {
      async read(key) {
        return await run(database, "readonly", (values) => values.get(key)) as
          | Uint8Array<ArrayBuffer>
          | undefined;
      },
      async write(key, bytes) {
        await run(database, "readwrite", (values) => values.put(Uint8Array.from(bytes), key));
      },
      async remove(key) {
        await run(database, "readwrite", (values) => values.delete(key));
      },
      async close() {
        database.close();
        await unlock();
      },
    };
  } catch (error) {
    await unlock();
    throw error;
  }
}

function openDatabase(name: string): Promise<IDBDatabase> {
  return new Promise((resolve, reject) => {
    const opening = indexedDB.open(name, 1);
    opening.onupgradeneeded = () => void opening.result.createObjectStore(TABLE);
    opening.onsuccess = () => resolve(opening.result);
    opening.onerror = () => reject(opening.error);
  });
}

/** One transaction with one request; resolves when the transaction is on disk. */
function run(
  database: IDBDatabase,
  mode: "readonly" | "readwrite",
  request: (values: IDBObjectStore) => IDBRequest,
): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const transaction = database.transaction(TABLE, mode, { durability: "strict" });
    const asked = request(transaction.objectStore(TABLE));
    transaction.oncomplete = () => resolve(asked.result);
    transaction.onabort = transaction.onerror = () => reject(transaction.error);
  });
}

/** Holds the Web Lock of a name until it is given back. */
function lock(name: string): Promise<() => Promise<void>> {
  return new Promise((resolve, reject) => {
    let release = () => {};
    const ended = navigator.locks.request(`agent-state ${name}`, { ifAvailable: true }, (held) => {
      if (held === null) throw new StoreInUseError(`The store ${name}`);
      return new Promise<void>((unlock) => {
        release = unlock;
        resolve(async () => {
          release();
          await ended;
        });
      });
    });
    ended.catch(reject);
  });
}
