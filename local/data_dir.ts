/** The data directory: who owns it now, and how the other commands find the running stack. */

import { join } from "node:path";
import { readTextIfExists, writeFileAtomically } from "./files.ts";

/** What the running stack tells the other commands. */
export interface StackFile {
  pid: number;
  url: string;
  databaseUrl: string;
  issuer: string;
  audience: string;
  startedAt: string;
}

/** Another stack runs on the data directory. */
export class DataDirInUse extends Error {}

/**
 * Takes the data directory for this process. The lock is the operating system's, on an open file: it ends with
 * the process, however that ends.
 */
export async function lockDataDir(dataDir: string): Promise<{ release(): void }> {
  await Deno.mkdir(dataDir, { recursive: true });
  const file = await Deno.open(join(dataDir, "lock"), { read: true, write: true, create: true, mode: 0o600 });
  if (!(await file.tryLock(true))) {
    const pid = (await readTextIfExists(join(dataDir, "lock")))?.trim() || "unknown";
    file.close();
    const stack = await readStackFile(dataDir);
    const where = stack !== undefined && String(stack.pid) === pid
      ? `at ${stack.url}`
      : "and is still starting";
    throw new DataDirInUse(`Already running on ${dataDir}: process ${pid} ${where}.`);
  }
  await file.truncate(0);
  await file.write(new TextEncoder().encode(`${Deno.pid}\n`));
  // The file stays: were it removed, two processes could each hold a lock on a different one.
  return { release: () => file.close() };
}

/** Tells the other commands where the stack is. */
export async function writeStackFile(dataDir: string, stack: StackFile): Promise<void> {
  await writeFileAtomically(join(dataDir, "stack.json"), JSON.stringify(stack, undefined, 2) + "\n");
}

/** Says that the stack is gone. */
export async function removeStackFile(dataDir: string): Promise<void> {
  await Deno.remove(join(dataDir, "stack.json")).catch((error) => {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  });
}

/** Returns what the stack of this data directory wrote last; it may have been killed since. */
export async function readStackFile(dataDir: string): Promise<StackFile | undefined> {
  const text = await readTextIfExists(join(dataDir, "stack.json"));
  return text === undefined ? undefined : JSON.parse(text) as StackFile;
}

/** Returns the running stack of this data directory, or undefined when none runs. */
export async function findRunningStack(dataDir: string): Promise<StackFile | undefined> {
  const stack = await readStackFile(dataDir);
  if (stack === undefined) return undefined;
  using file = await Deno.open(join(dataDir, "lock"), { read: true, write: true });
  return await file.tryLock(true) ? undefined : stack;
}
