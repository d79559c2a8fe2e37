/** `deno task start` as a real process, with a DATA_DIR of its own, for tests that kill things. */

import assert from "node:assert/strict";
import { join } from "node:path";
import { readStackFile, type StackFile } from "../../local/data_dir.ts";
import { readTextIfExists } from "../../local/files.ts";
import { isAlive } from "../../local/postgres_process.ts";

const ROOT = new URL("../..", import.meta.url).pathname;

/** A started process. */
export interface Service {
  pid: number;
  /** What it printed so far, both streams. */
  output(): string;
  /** Waits until it serves, and returns what it wrote for the other commands. */
  ready(): Promise<StackFile>;
  kill(signal: Deno.Signal): void;
  exit: Promise<number>;
}

/** Runs a test with a DATA_DIR that goes away afterwards, together with every server on it. */
export async function withDataDir(run: (dataDir: string) => Promise<void>, mode = 0o711): Promise<void> {
  const dataDir = await Deno.makeTempDir({ prefix: "agent-state-" });
  await Deno.chmod(dataDir, mode);
  try {
    await run(dataDir);
  } finally {
    const pointer = (await readTextIfExists(join(dataDir, "postgres_cluster")))?.trim();
    for (const cluster of [join(dataDir, "postgres"), ...(pointer === undefined ? [] : [pointer])]) {
      await killServer(cluster);
      await Deno.remove(cluster, { recursive: true }).catch(() => {});
    }
    await Deno.remove(dataDir, { recursive: true });
  }
}

/** Starts the service; `root` is the clone it starts from, `args` what is run instead. */
export function startService(
  dataDir: string,
  env: Record<string, string> = {},
  root = ROOT,
  args = ["run", "-A", "local/start.ts"],
): Service {
  return startProgram(args, dataDir, { PORT: "0", ...env }, root);
}

/** Runs one of the other commands to its end. */
export async function runCommand(
  file: string,
  args: string[],
  dataDir: string,
  env: Record<string, string> = {},
) {
  const service = startProgram(["run", "-A", `local/${file}.ts`, ...args], dataDir, env, ROOT);
  return { code: await service.exit, output: service.output().trim() };
}

/** Waits until `check` gives something; fails with `what` when that takes too long. */
export async function until<T>(what: string, check: () => Promise<T | undefined>, seconds = 20): Promise<T> {
  const end = Date.now() + seconds * 1000;
  for (;;) {
    const found = await check();
    if (found !== undefined && found !== false) return found;
    assert.ok(Date.now() < end, `Waited ${seconds} s until ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
}

/** Process id of the Postgres of this data directory. */
export async function postmasterOf(dataDir: string): Promise<number> {
  const text = await Deno.readTextFile(join(dataDir, "postgres/data/postmaster.pid"));
  return Number(text.split("\n")[0]);
}

/** Replicates one block and returns what it takes to see it again. */
export async function replicateBlock(url: string): Promise<{ token: string; hash: string }> {
  const block = crypto.getRandomValues(new Uint8Array(64));
  const hash = await sha256(block);
  const root = await sha256(new Uint8Array([...new Uint8Array(32), ...hash]));
  const token = `sov_proj_${crypto.randomUUID()}`;
  const response = await fetch(`${url}/functions/v1/v2-agent-state/replicate`, {
    method: "POST",
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    body: JSON.stringify({
      chunks: [{
        sequence_number: 0,
        block_hash: hash.toHex(),
        ciphertext_b64: block.toBase64(),
      }],
      merkle_root: root.toHex(),
    }),
  });
  const text = await response.text();
  assert.equal(response.status, 200, text);
  return { token, hash: hash.toHex() };
}

/** Tells whether the block is in the log; undefined while the service does not say. */
export async function findBlock(
  url: string,
  block: { token: string; hash: string },
): Promise<boolean | undefined> {
  const response = await fetch(`${url}/functions/v1/v2-agent-state/replay?since=-1`, {
    headers: { authorization: `Bearer ${block.token}` },
  }).catch(() => undefined);
  const text = await response?.text();
  return response?.status === 200 ? text!.includes(block.hash) : undefined;
}

function startProgram(args: string[], dataDir: string, env: Record<string, string>, root: string): Service {
  const child = new Deno.Command(Deno.execPath(), {
    args,
    cwd: root,
    env: { DATA_DIR: dataDir, DATABASE_URL: "", NO_COLOR: "1", ...env },
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  let output = "";
  const reading = Promise.all([child.stdout, child.stderr].map(async (stream) => {
    for await (const text of stream.pipeThrough(new TextDecoderStream())) output += text;
  }));
  let ended = false;
  const exit = child.status.then(async ({ code }) => {
    await reading;
    ended = true;
    return code;
  });
  return {
    pid: child.pid,
    output: () => output,
    exit,
    kill: (signal) => child.kill(signal),
    ready: () =>
      until(`${args.join(" ")} serves; it said:\n${output}`, async () => {
        assert.ok(!ended, `It ended:\n${output}`);
        const stack = await readStackFile(dataDir);
        if (stack?.pid !== child.pid) return undefined;
        const health = await fetch(`${stack.url}/functions/v1/v2-agent-state/health`);
        await health.body?.cancel();
        return health.ok ? stack : undefined;
      }, 40),
  };
}

async function killServer(cluster: string): Promise<void> {
  const file = join(cluster, "data/postmaster.pid");
  const pid = Number((await readTextIfExists(file))?.split("\n")[0]);
  if (!(pid > 1) || !(await isAlive(pid))) return;
  Deno.kill(pid, "SIGKILL");
  await until("the killed Postgres is gone", async () => !(await isAlive(pid)));
}

async function sha256(bytes: Uint8Array<ArrayBuffer>): Promise<Uint8Array> {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
}
