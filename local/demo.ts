/**
 * `deno task demo`: an agent keeps its memory, loses its disk, and comes back byte for byte.
 *
 * The memory is real: the files of this repository. Everything goes through the client, as an agent would use it.
 * Without `--url` the demo runs on a service of its own, which it throws away afterwards.
 */

import { parseArgs } from "node:util";
import { dirname, join, relative } from "node:path";
import { type Home, stateOf } from "../client/command/home.ts";
import { pull } from "../client/command/pull.ts";
import { push } from "../client/command/push.ts";
import type { Terminal } from "../client/command/terminal.ts";
import { AgentStateClient, canonicalize, generateKey } from "../client/mod.ts";
import { baseOf, startOwnStack } from "./own_stack.ts";
import { print, printError } from "./print.ts";

const REPOSITORY = new URL("..", import.meta.url).pathname;
const FOLDERS = ["supabase", "local", "docs", "tests"];
const TEXT = /\.(ts|sql|json|toml|md)$/;
/** Less than what a snapshot may hold, in characters, so that there is a lineage to walk. */
const SNAPSHOT_LENGTH = 100_000;
const AGENT = "demo-agent";
const LINES_EVERY = 8;
const USAGE = "Usage: deno task demo [--url BASE] [--token TOKEN]";

/** What survives the lost disk: the address, the token and the key. */
interface Device {
  client: AgentStateClient;
  home: Home;
}

async function main(): Promise<void> {
  const { url, token = `sov_proj_${crypto.randomUUID()}` } = readArguments();
  await using parts = new AsyncDisposableStack();
  const base = url ?? baseOf(await startOwnStack(parts));
  const disk = await Deno.makeTempDir({ prefix: "agent-state-demo-" });
  parts.defer(() => Deno.remove(disk, { recursive: true }));
  const account = { url: base, token, key: generateKey(), madeKey: false };
  print(`Service   ${base}`);

  const memory = await gatherMemory(`${disk}/memory`);
  print(`Memory    ${memory.files} files of this repository, ${size(memory.text.length)}\n`);

  print("The agent works");
  const device = newDevice({ ...account, directory: `${disk}/agent` });
  await checkpoint(device, memory.text);
  const pushed = await push(device.home, `${disk}/memory`, undefined, terminal("replicated"));
  print(`               head ${pushed.sequence_number}, root ${pushed.merkle_root.slice(0, 12)}…`);

  print("\nIts disk is lost. A new device has the address, the token and the key, and nothing else");
  const other = newDevice({ ...account, directory: `${disk}/other` });
  const restored = await restoreSnapshots(other);
  await pull(other.home, `${disk}/replayed`, { folder: pushed.folder }, terminal("replayed"));
  const replayed = await gather(`${disk}/replayed`, [""]);

  print("");
  const same = [["snapshots", restored], ["replication log", replayed.text]] as const;
  for (const [what, text] of same) {
    print(`${text === memory.text ? "✓" : "✗"} the memory from the ${what} is equal byte for byte`);
  }
  const held = same.every(([, text]) => text === memory.text);
  print(held ? "\nVerdict: everything came back." : "\nVerdict: NOT everything came back.");
  if (!held) Deno.exitCode = 1;
}

function newDevice(account: Omit<Home, "state">): Device {
  const home = { ...account, state: stateOf(account.directory, account) };
  return { home, client: new AgentStateClient({ baseUrl: home.url, token: home.token, agentId: AGENT }) };
}

/** Copies this repository's texts into a folder, which is what the agent remembers. */
async function gatherMemory(folder: string): Promise<{ files: number; text: string }> {
  for (const path of (await Promise.all(FOLDERS.map((each) => listFiles(REPOSITORY + each)))).flat()) {
    const copy = `${folder}/${relative(REPOSITORY, path)}`;
    await Deno.mkdir(dirname(copy), { recursive: true });
    await Deno.copyFile(path, copy);
  }
  return await gather(folder, FOLDERS);
}

/** All files of some folders as one text. */
async function gather(root: string, folders: string[]): Promise<{ files: number; text: string }> {
  const paths = (await Promise.all(folders.map((each) => listFiles(`${root}/${each}`)))).flat().sort();
  const memories = await Promise.all(paths.map(async (path) => ({
    path: relative(root, path),
    text: await Deno.readTextFile(path),
  })));
  return { files: paths.length, text: canonicalize(memories) };
}

async function listFiles(folder: string): Promise<string[]> {
  const found: string[] = [];
  for await (const entry of Deno.readDir(folder)) {
    const path = join(folder, entry.name);
    if (entry.isDirectory) found.push(...await listFiles(path));
    else if (TEXT.test(entry.name)) found.push(path);
  }
  return found;
}

/** Stores the memory as snapshots, each linked to the one before. */
async function checkpoint({ client, home: { key } }: Device, text: string): Promise<void> {
  const pieces = split(text, SNAPSHOT_LENGTH);
  for (const [i, payload] of pieces.entries()) {
    const receipt = await client.snapshot({ key, payload });
    progress("checkpointed", i + 1, pieces.length, "snapshots", receipt.storage_path);
  }
}

/** Walks the lineage from the genesis, and restores each snapshot. */
async function restoreSnapshots({ client, home: { key } }: Device): Promise<string> {
  const lineage = (await client.lineage({ limit: 500 })).reverse();
  let text = "";
  for (const { sequence_number: sequence } of lineage) {
    text += (await client.restoreAt({ sequence, key })).payload;
    progress("restored", sequence + 1, lineage.length, "snapshots", "tag, hash and parent agree");
  }
  return text;
}

/** Shows how many blocks have come and gone, in lines like the others. */
function terminal(done: string): Terminal {
  return {
    print,
    note: print,
    progress(what, count, total) {
      const worthSaying = count % LINES_EVERY === 0 || count === total;
      if (what !== "encrypted" && worthSaying) progress(done, count, total, "blocks", "");
    },
  };
}

function progress(done: string, count: number, total: number, what: string, detail: string): void {
  print(`  ${done.padEnd(12)} ${String(count).padStart(3)}/${total} ${what.padEnd(10)} ${detail}`.trimEnd());
}

/** Pieces of a text, none of which ends inside of a character. */
function split(text: string, length: number): string[] {
  return text.match(new RegExp(`.{1,${length}}`, "gsu")) ?? [];
}

function size(bytes: number): string {
  return `${(bytes / 1024).toFixed(0)} KiB`;
}

function readArguments(): { url?: string; token?: string } {
  try {
    const { values } = parseArgs({
      args: Deno.args,
      options: { url: { type: "string" }, token: { type: "string" } },
    });
    if (values.url !== undefined && !URL.canParse(values.url)) throw new Error(`Not a URL: ${values.url}`);
    return { ...values, ...(values.url === undefined ? {} : { url: values.url.replace(/\/+$/, "") }) };
  } catch (error) {
    printError(`${error instanceof Error ? error.message : error}\n${USAGE}`);
    Deno.exit(2);
  }
}

try {
  await main();
} catch (error) {
  printError(`\nVerdict: the demo failed. ${error instanceof Error ? error.message : error}`);
  Deno.exit(1);
}
