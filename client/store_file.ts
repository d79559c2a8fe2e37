/** A store in a directory, for Node and Deno. Entry `file-store` of the package. */

import { link, mkdir, open, readdir, readFile, rename, rm, stat, utimes } from "node:fs/promises";
import { hostname } from "node:os";
import { dirname, join } from "node:path";
import process from "node:process";
import { StoreInUseError } from "./errors.ts";
import type { Store } from "./store.ts";

const LOCK = /^lock-/;
const TEMPORARY = /^temporary-/;
const TOUCH_MS = 5_000;
/** A holder on another machine that has not touched its lock for so long has ended. */
const ABANDONED_MS = 30_000;
const RETRY_MS = 50;

/** A store in a directory, and its end. */
export interface FileStore extends Store {
  close(): Promise<void>;
}

/** Who holds a lock. */
interface Holder {
  host: string;
  pid: number;
  /** When the process started, where the system tells: process ids are used again. */
  started: string;
}

/**
 * Opens the store in a directory, which is made if it is missing. Files are readable by their owner only. One process
 * holds it at a time; another waits up to `waitMs` and then gets {@link StoreInUseError}. A holder that was killed
 * holds nothing any more.
 */
export async function openFileStore(directory: string, { waitMs = 0 } = {}): Promise<FileStore> {
  await mkdir(directory, { recursive: true, mode: 0o700 });
  const unlock = await lock(directory, waitMs);
  await removeTemporary(directory);
  const pathOf = (name: string) => join(directory, `value-${encodeURIComponent(name)}`);
  return {
    async read(name) {
      const found = await orUndefined(readFile(pathOf(name)));
      return found && Uint8Array.from(found);
    },
    async write(name, bytes) {
      await writeAtomically(directory, pathOf(name), bytes);
    },
    async remove(name) {
      await rm(pathOf(name), { force: true });
    },
    close: unlock,
  };
}

/** Creates a file that only its owner can read, as a whole, unless it exists. Says whether it did. */
export async function createPrivateFile(path: string, bytes: Uint8Array): Promise<boolean> {
  const temporary = await writeTemporary(path, bytes, "new");
  try {
    // A hard link, unlike a rename, refuses to replace what another process has just made.
    await link(temporary, path);
    return true;
  } catch (error) {
    if (codeOf(error) === "EEXIST") return false;
    throw error;
  } finally {
    await rm(temporary, { force: true });
  }
}

async function writeAtomically(directory: string, path: string, bytes: Uint8Array): Promise<void> {
  await rename(await writeTemporary(path, bytes), path);
  await syncDirectory(directory);
}

async function writeTemporary(path: string, bytes: Uint8Array, kind = "temporary"): Promise<string> {
  const temporary = join(dirname(path), `${kind}-${crypto.randomUUID()}`);
  const file = await open(temporary, "wx", 0o600);
  try {
    await file.writeFile(bytes);
    await file.sync();
  } finally {
    await file.close();
  }
  return temporary;
}

/** Makes a rename durable. Windows cannot open directories, and does not need it. */
async function syncDirectory(directory: string): Promise<void> {
  if (process.platform === "win32") return;
  const opened = await open(directory);
  try {
    await opened.sync();
  } finally {
    await opened.close();
  }
}

/** What a killed process was about to write. Those who come for the lock write under another name. */
async function removeTemporary(directory: string): Promise<void> {
  const left = (await readdir(directory)).filter((name) => TEMPORARY.test(name));
  for (const name of left) await rm(join(directory, name), { force: true });
}

/**
 * Takes the directory. Each process makes a lock file of its own name and then looks for others: of two that come
 * together at least one sees the other and steps back, and nobody ever removes the lock of a living process.
 */
async function lock(directory: string, waitMs: number): Promise<() => Promise<void>> {
  const mine = `lock-${process.pid}-${crypto.randomUUID()}`;
  const path = join(directory, mine);
  const me = { host: hostname(), pid: process.pid, started: await startOf(process.pid) };
  const end = Date.now() + waitMs;
  for (;;) {
    await createPrivateFile(path, new TextEncoder().encode(JSON.stringify(me)));
    if (!(await isHeldByOther(directory, mine))) break;
    await rm(path, { force: true });
    if (Date.now() >= end) throw new StoreInUseError(directory);
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS * (0.5 + Math.random())));
  }
  const timer = setInterval(() => void utimes(path, new Date(), new Date()).catch(() => {}), TOUCH_MS);
  timer.unref();
  return async function unlock() {
    clearInterval(timer);
    await rm(path, { force: true });
  };
}

async function isHeldByOther(directory: string, mine: string): Promise<boolean> {
  const others = (await readdir(directory)).filter((name) => LOCK.test(name) && name !== mine);
  let held = false;
  for (const name of others) {
    const path = join(directory, name);
    if (await isAlive(path)) held = true;
    else await rm(path, { force: true });
  }
  return held;
}

async function isAlive(path: string): Promise<boolean> {
  const text = await orUndefined(readFile(path, "utf8"));
  if (text === undefined) return false;
  const holder = JSON.parse(text) as Holder;
  if (holder.host !== hostname()) {
    const found = await orUndefined(stat(path));
    return found !== undefined && Date.now() - found.mtimeMs < ABANDONED_MS;
  }
  return isRunning(holder.pid) && await startOf(holder.pid) === holder.started;
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return codeOf(error) === "EPERM";
  }
}

/** When a process started, in ticks since the machine did; empty where the system does not tell. */
async function startOf(pid: number): Promise<string> {
  const text = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "");
  // The second field is the program's name in parentheses, and may hold anything.
  return text.slice(text.lastIndexOf(")") + 2).split(" ")[19] ?? "";
}

async function orUndefined<T>(reading: Promise<T>): Promise<T | undefined> {
  try {
    return await reading;
  } catch (error) {
    if (codeOf(error) === "ENOENT") return undefined;
    throw error;
  }
}

function codeOf(error: unknown): unknown {
  return (error as { code?: unknown }).code;
}
