/**
 * `deno task demo`: an agent keeps its memory, loses its disk, and comes back byte for byte.
 *
 * The memory is real: the files of this repository. Without `--url` the demo runs on a service of its own, which
 * it throws away afterwards.
 */

import { parseArgs } from "node:util";
import { relative } from "node:path";
import { EMPTY_ROOT, newKey, nextRoot, open, seal, sha256Hex } from "./agent_crypto.ts";
import { baseOf, startOwnStack } from "./own_stack.ts";
import { print, printError } from "./print.ts";

const REPOSITORY = new URL("..", import.meta.url).pathname;
const FOLDERS = ["supabase", "local", "docs", "tests"];
const TEXT = /\.(ts|sql|json|toml|md)$/;
const BLOCK_BYTES = 64 * 1024;
/** Half of what a snapshot may hold, so that there is a lineage to walk. */
const SNAPSHOT_BYTES = 128 * 1024;
const POLICY_HASH = "0".repeat(64);
const AGENT = "demo-agent";
const USAGE = "Usage: deno task demo [--url BASE] [--token TOKEN]";

/** What survives the lost disk: the address, the token and the key. */
interface Device {
  base: string;
  token: string;
  key: CryptoKey;
}

async function main(): Promise<void> {
  const { url, token = `sov_proj_${crypto.randomUUID()}` } = readArguments();
  await using parts = new AsyncDisposableStack();
  const base = url ?? baseOf(await startOwnStack(parts));
  const device: Device = { base, token, key: await newKey() };
  print(`Service   ${base}`);

  const memory = await gatherMemory();
  print(`Memory    ${memory.files} files of this repository, ${size(memory.bytes.length)}\n`);

  print("The agent works");
  await checkpoint(device, memory.bytes);
  await replicate(device, memory.bytes);

  print("\nIts disk is lost. A new device has the address, the token and the key, and nothing else");
  const restored = await restoreSnapshots(device);
  const replayed = await replayLog(device);

  print("");
  const same = [["snapshots", restored], ["replication log", replayed]] as const;
  for (const [what, bytes] of same) {
    print(`${equal(bytes, memory.bytes) ? "✓" : "✗"} the memory from the ${what} is equal byte for byte`);
  }
  const held = same.every(([, bytes]) => equal(bytes, memory.bytes));
  print(held ? "\nVerdict: everything came back." : "\nVerdict: NOT everything came back.");
  if (!held) Deno.exitCode = 1;
}

/** Everything that the agent knows, in one byte string. */
async function gatherMemory(): Promise<{ files: number; bytes: Uint8Array<ArrayBuffer> }> {
  const paths = (await Promise.all(FOLDERS.map((folder) => listFiles(REPOSITORY + folder)))).flat().sort();
  const memories = await Promise.all(paths.map(async (path, i) => ({
    id: relative(REPOSITORY, path),
    text: await Deno.readTextFile(path),
    timestamp: String(1_700_000_000_000 + i),
  })));
  return { files: paths.length, bytes: new TextEncoder().encode(JSON.stringify({ memories })) };
}

async function listFiles(folder: string): Promise<string[]> {
  const found: string[] = [];
  for await (const entry of Deno.readDir(folder)) {
    const path = `${folder}/${entry.name}`;
    if (entry.isDirectory) found.push(...await listFiles(path));
    else if (TEXT.test(entry.name)) found.push(path);
  }
  return found;
}

/** Stores the memory as snapshots, each linked to the one before. */
async function checkpoint(device: Device, memory: Uint8Array<ArrayBuffer>): Promise<void> {
  let parent: string | null = null;
  const pieces = split(memory, SNAPSHOT_BYTES);
  for (const [sequence, plaintext] of pieces.entries()) {
    const sealed = await seal(device.key, plaintext);
    const receipt: { storage_path: string; cost_milli: number } = await call(device, "POST", "/snapshot", {
      agent_id: AGENT,
      sequence_number: sequence,
      parent_snapshot: parent,
      policy_hash: POLICY_HASH,
      client_payload_hash: sha256Hex(plaintext),
      ciphertext_b64: sealed.toBase64(),
      byte_size: sealed.length,
      timestamp: new Date().toISOString(),
    });
    parent = receipt.storage_path;
    progress("checkpointed", sequence + 1, pieces.length, "snapshots", `${receipt.storage_path}`);
  }
}

/** Appends the memory to the replication log in blocks of 64 KiB. */
async function replicate(device: Device, memory: Uint8Array<ArrayBuffer>): Promise<void> {
  let root = EMPTY_ROOT;
  const pieces = split(memory, BLOCK_BYTES);
  for (const [sequence, plaintext] of pieces.entries()) {
    const block = await seal(device.key, plaintext);
    const blockHash = sha256Hex(block);
    root = nextRoot(root, blockHash);
    await call(device, "POST", "/replicate", {
      chunks: [{ sequence_number: sequence, block_hash: blockHash, ciphertext_b64: block.toBase64() }],
      merkle_root: root,
    });
    progress("replicated", sequence + 1, pieces.length, "blocks", `root ${root.slice(0, 12)}…`);
  }
}

/** Walks the lineage from the genesis, downloads, decrypts and checks each snapshot. */
async function restoreSnapshots(device: Device): Promise<Uint8Array> {
  const lineage: { sequence_number: number; storage_path: string; parent_path: string | null }[] =
    (await call<[]>(device, "GET", `/snapshot/${AGENT}/lineage?limit=500`)).reverse();
  const pieces: Uint8Array[] = [];
  for (const [i, entry] of lineage.entries()) {
    if (entry.parent_path !== (lineage[i - 1]?.storage_path ?? null)) {
      throw new Error("The lineage is broken");
    }
    const { receipt, ciphertextUrl } = await call<{ receipt: Record<string, string>; ciphertextUrl: string }>(
      device,
      "GET",
      `/snapshot/${AGENT}/${entry.sequence_number}`,
    );
    const plaintext = await open(
      device.key,
      new Uint8Array(await (await fetch(ciphertextUrl)).arrayBuffer()),
    );
    if (sha256Hex(plaintext) !== receipt.client_payload_hash) throw new Error("A snapshot has changed");
    pieces.push(plaintext);
    progress("restored", i + 1, lineage.length, "snapshots", "hash and parent agree");
  }
  return join(pieces);
}

/** Replays the log, checks every hash and the chain up to the head, and decrypts. */
async function replayLog(device: Device): Promise<Uint8Array> {
  const head = await call<{ merkle_root: string }>(device, "GET", "/head");
  const pieces: Uint8Array[] = [];
  let root = EMPTY_ROOT;
  let since = -1;
  for (let more = true; more;) {
    const page = await call<{ chunks: Record<string, string & number>[]; has_more: boolean }>(
      device,
      "GET",
      `/replay?since=${since}`,
    );
    for (const chunk of page.chunks) {
      const block = Uint8Array.fromBase64(chunk.ciphertext_b64!);
      if (sha256Hex(block) !== chunk.block_hash) throw new Error("A block has changed");
      root = nextRoot(root, chunk.block_hash!);
      pieces.push(await open(device.key, block));
      since = chunk.sequence_number!;
    }
    more = page.has_more;
    progress("replayed", pieces.length, pieces.length, "blocks", `root ${root.slice(0, 12)}…`);
  }
  if (root !== head.merkle_root) throw new Error("The chain does not end at the head's root");
  return join(pieces);
}

async function call<T>(device: Device, method: string, path: string, body?: unknown): Promise<T> {
  const response = await fetch(device.base + path, {
    method,
    headers: { authorization: `Bearer ${device.token}`, "content-type": "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${path} answered ${response.status} ${text}`);
  return JSON.parse(text);
}

function progress(done: string, count: number, total: number, what: string, detail: string): void {
  print(`  ${done.padEnd(12)} ${String(count).padStart(3)}/${total} ${what.padEnd(10)} ${detail}`);
}

function split(bytes: Uint8Array<ArrayBuffer>, size: number): Uint8Array<ArrayBuffer>[] {
  const count = Math.ceil(bytes.length / size);
  return Array.from({ length: count }, (_, i) => bytes.subarray(i * size, (i + 1) * size));
}

function join(pieces: Uint8Array[]): Uint8Array {
  const bytes = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
  let offset = 0;
  for (const piece of pieces) {
    bytes.set(piece, offset);
    offset += piece.length;
  }
  return bytes;
}

function equal(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((byte, i) => byte === b[i]);
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
