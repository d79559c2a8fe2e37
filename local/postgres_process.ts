/** Finds out which processes really belong to a Postgres data directory, however its last run ended. */

import { kill } from "node:process";
import { join } from "node:path";
import { readTextIfExists } from "./files.ts";

/** Returns the process id of the server running on this data directory, or undefined. */
export async function findPostmaster(dataDirectory: string): Promise<number | undefined> {
  const first = (await readTextIfExists(join(dataDirectory, "postmaster.pid")))?.split("\n")[0];
  const pid = Number(first);
  if (!Number.isSafeInteger(pid) || pid <= 1) return undefined;
  return await isAlive(pid) && await belongsTo(pid, dataDirectory) ? pid : undefined;
}

/**
 * Makes way for a new server: clears what a killed one left behind.
 *
 * Postgres, like pg_ctl, takes any live process with the recorded id for the old server. After a restart of a
 * container that id belongs to something else, and where nothing reaps orphans a killed server stays as a zombie;
 * both would block the start for ever. So the lock file goes, but only once no process works in the directory.
 */
export async function clearLeftovers(dataDirectory: string, patienceMs: number): Promise<void> {
  const start = Date.now();
  // Only Linux tells which directory a process works in; elsewhere Postgres' own checks must do.
  if (Deno.build.os !== "linux") return;
  for (;;) {
    const lingering = await processesIn(dataDirectory);
    if (lingering.length === 0) break;
    const waited = Date.now() - start;
    if (waited > 2 * patienceMs) {
      throw new Error(`Processes ${lingering.join(", ")} do not let go of ${dataDirectory}`);
    }
    // Their server is dead, so they cannot commit; they only keep its shared memory in use.
    if (waited > patienceMs) { for (const pid of lingering) sendSignal(pid, "SIGKILL"); }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  await Deno.remove(join(dataDirectory, "postmaster.pid")).catch((error) => {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  });
}

/** Tells whether a process runs; a zombie does not. */
export async function isAlive(pid: number): Promise<boolean> {
  if (Deno.build.os === "linux") {
    const stat = await readTextIfExists(`/proc/${pid}/stat`).catch(() => undefined);
    // The state follows the program's name, which is in parentheses and may itself contain some.
    const state = stat?.slice(stat.lastIndexOf(")") + 2, stat.lastIndexOf(")") + 3);
    return state !== undefined && state !== "Z" && state !== "X";
  }
  try {
    kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

async function belongsTo(pid: number, dataDirectory: string): Promise<boolean> {
  if (Deno.build.os === "linux") {
    return await workingDirectory(String(pid)) === await Deno.realPath(dataDirectory);
  }
  const { stdout } = await new Deno.Command("ps", { args: ["-o", "args=", "-p", String(pid)] }).output();
  return new TextDecoder().decode(stdout).includes(dataDirectory);
}

/** Lists the live processes that work in this directory: a server and all its children do in theirs. */
async function processesIn(dataDirectory: string): Promise<number[]> {
  const real = await Deno.realPath(dataDirectory);
  const found: number[] = [];
  for await (const { name } of Deno.readDir("/proc")) {
    if (!/^[0-9]+$/.test(name) || await workingDirectory(name) !== real) continue;
    if (await isAlive(Number(name))) found.push(Number(name));
  }
  return found;
}

async function workingDirectory(pid: string): Promise<string | undefined> {
  try {
    return await Deno.readLink(`/proc/${pid}/cwd`);
  } catch {
    // It has ended, or is someone else's.
    return undefined;
  }
}

function sendSignal(pid: number, signal: Deno.Signal): void {
  try {
    Deno.kill(pid, signal);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}
