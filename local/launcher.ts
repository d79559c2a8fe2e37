/**
 * Notices that the command which launched us is gone.
 *
 * `npx deno task start` is a chain of processes, and npx dies of a signal without passing it on. The service would
 * run on with nobody to stop it, holding its port and its data directory.
 */

const CHECK_MS = 500;
const ANCESTORS_MAX = 8;

interface Process {
  parent: number;
  command: string;
}

/** Calls `gone` once when the npm or npx above us has ended. Does nothing when there is none. */
export async function watchLauncher(gone: () => void): Promise<void> {
  const launcher = await findLauncher();
  if (launcher === undefined) return;
  const timer = setInterval(async () => {
    if ((await findProcess(launcher.pid))?.command === launcher.command) return;
    clearInterval(timer);
    gone();
  }, CHECK_MS);
  Deno.unrefTimer(timer);
}

/** The highest npm or npx among our nearest ancestors. */
async function findLauncher(): Promise<{ pid: number; command: string } | undefined> {
  let launcher;
  let pid = Deno.ppid;
  for (let i = 0; i < ANCESTORS_MAX && pid > 1; i++) {
    const found = await findProcess(pid);
    if (found === undefined) break;
    if (/^np[mx] |\/np[mx](-cli\.js)? /.test(found.command)) launcher = { pid, command: found.command };
    pid = found.parent;
  }
  return launcher;
}

async function findProcess(pid: number): Promise<Process | undefined> {
  try {
    return Deno.build.os === "linux" ? await readProc(pid) : await askPs(pid);
  } catch {
    return undefined;
  }
}

/** Not through `ps`, which small machines do not have. A zombie's command line is empty: it has ended. */
async function readProc(pid: number): Promise<Process | undefined> {
  const command = (await Deno.readTextFile(`/proc/${pid}/cmdline`)).replaceAll("\0", " ");
  const parent = Number(/^PPid:\s+(\d+)/m.exec(await Deno.readTextFile(`/proc/${pid}/status`))?.[1]);
  return command === "" ? undefined : { parent, command: `${command} ` };
}

async function askPs(pid: number): Promise<Process | undefined> {
  const { success, stdout } = await new Deno.Command("ps", {
    args: ["-o", "ppid=,command=", "-p", String(pid)],
  })
    .output();
  const [, parent, command] = /^\s*(\d+)\s+(.*)/.exec(new TextDecoder().decode(stdout)) ?? [];
  return success && command !== undefined ? { parent: Number(parent), command: `${command} ` } : undefined;
}
