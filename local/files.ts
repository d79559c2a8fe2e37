/** Small file operations that must survive a crash at any moment. */

import { dirname } from "node:path";

/** Replaces a file as a whole: readers, and a crash, see the old content or the new one. */
export async function writeFileAtomically(path: string, text: string, mode = 0o600): Promise<void> {
  const temporary = await writeTemporary(path, text, mode);
  await Deno.rename(temporary, path);
  await syncDirectory(dirname(path));
}

/** Creates a file as a whole unless it exists; of concurrent creators exactly one wins. */
export async function createFileAtomically(path: string, text: string, mode = 0o600): Promise<boolean> {
  const temporary = await writeTemporary(path, text, mode);
  try {
    // A hard link, unlike a rename, refuses to replace what another process has just made.
    await Deno.link(temporary, path);
  } catch (error) {
    if (error instanceof Deno.errors.AlreadyExists) return false;
    throw error;
  } finally {
    await Deno.remove(temporary);
  }
  await syncDirectory(dirname(path));
  return true;
}

/** Writes all of `bytes` and waits until they are on disk. */
export async function writeDurably(file: Deno.FsFile, bytes: Uint8Array): Promise<void> {
  for (let rest = bytes; rest.length > 0;) rest = rest.subarray(await file.write(rest));
  await file.sync();
}

/** Makes the names inside a directory durable. */
export async function syncDirectory(path: string): Promise<void> {
  using directory = await Deno.open(path);
  await directory.sync();
}

/** Returns a file's text, or undefined when there is no such file. */
export async function readTextIfExists(path: string): Promise<string | undefined> {
  try {
    return await Deno.readTextFile(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}

/** Tells whether something has this name. */
export async function exists(path: string): Promise<boolean> {
  try {
    await Deno.lstat(path);
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}

async function writeTemporary(path: string, text: string, mode: number): Promise<string> {
  const temporary = `${path}.${crypto.randomUUID()}.tmp`;
  using file = await Deno.open(temporary, { write: true, createNew: true, mode });
  await writeDurably(file, new TextEncoder().encode(text));
  return temporary;
}
