/** Where a client keeps what must outlive it. Three methods, so that any storage will do. */

import { type Bytes, decodeText, encodeText } from "./bytes.ts";
import { IntegrityError } from "./errors.ts";

/**
 * Named byte strings. `write` and `remove` are durable when they resolve, and atomic: after a crash a name has its old
 * bytes or its new ones. One client uses a store at a time.
 */
export interface Store {
  read(name: string): Promise<Bytes | undefined>;
  write(name: string, bytes: Uint8Array): Promise<void>;
  /** Removing what is not there is no error. */
  remove(name: string): Promise<void>;
}

/** A store that ends with the process. */
export function createMemoryStore(): Store {
  const held = new Map<string, Bytes>();
  return {
    read: (name) => Promise.resolve(held.get(name)?.slice()),
    write: (name, bytes) => Promise.resolve(void held.set(name, Uint8Array.from(bytes))),
    remove: (name) => Promise.resolve(void held.delete(name)),
  };
}

/** Reads a value that {@link writeJson} wrote; undefined when there is none. */
export async function readJson<T>(store: Store, name: string): Promise<T | undefined> {
  const bytes = await store.read(name);
  if (bytes === undefined) return undefined;
  try {
    return JSON.parse(decodeText(bytes)) as T;
  } catch (cause) {
    throw new IntegrityError("outbox_damaged", `The store's ${name} cannot be read`, { cause });
  }
}

/** Writes a value as JSON. */
export async function writeJson(store: Store, name: string, value: unknown): Promise<void> {
  await store.write(name, encodeText(JSON.stringify(value)));
}
