/**
 * `deno task bench [--quick]`: what a durable append and a replay cost, as ratios to a bare INSERT of the same bytes
 * into the same Postgres in the same run. Service, database and load generator share this machine.
 */

import { createHash, randomBytes } from "node:crypto";
import { join } from "node:path";
// @deno-types="npm:@types/pg@8.23.1"
import pg from "pg";
import { readStackFile } from "../local/data_dir.ts";
import { print } from "../local/print.ts";

const ROOT = new URL("..", import.meta.url).pathname;
const SIZES = [4 * 1024, 64 * 1024];
const CONNECTIONS = [1, 8];
const quick = Deno.args.includes("--quick");
const ROUNDS = quick ? 5 : 9;
const ROUND_MS = quick ? 600 : 2000;
const REPLAYS = quick ? 5 : 15;
const ZERO_ROOT = "0".repeat(64);

interface Result {
  what: string;
  bytes: number;
  connections: number;
  insert: number;
  append: number;
  ratio: number;
}

async function main(): Promise<void> {
  await using parts = new AsyncDisposableStack();
  const { url, databaseUrl } = await startService(parts);
  const base = `${url}/functions/v1/v2-agent-state`;
  const pool = new pg.Pool({ connectionString: databaseUrl, max: Math.max(...CONNECTIONS) });
  parts.defer(() => pool.end());
  await pool.query("create table public.bench_bare (id bigint generated always as identity, body bytea)");

  const results: Result[] = [];
  for (const bytes of SIZES) {
    for (const connections of CONNECTIONS) results.push(await compare(pool, base, bytes, connections));
  }
  const replayMs = await measureReplay(base);

  print("durable append, operations a second (medians; fsync on)\n");
  print("bytes    connections   bare INSERT   POST /replicate   ratio");
  for (const { bytes, connections, insert, append, ratio } of results) {
    const columns = [bytes, connections, Math.round(insert), Math.round(append), ratio.toFixed(2)];
    const widths = [5, 14, 14, 18, 8];
    print(columns.map((value, i) => String(value).padStart(widths[i]!)).join(""));
  }
  print(`\nGET /replay of 1,000 entries of 4 KiB: ${replayMs.toFixed(0)} ms (median)`);
  await save({ results, replay_ms: replayMs });
}

/** Interleaves rounds of both, so that a machine that slows down slows both. */
async function compare(pool: pg.Pool, base: string, bytes: number, connections: number): Promise<Result> {
  const body = randomBytes(bytes);
  const insert = () =>
    pool.query({ name: "bare", text: "insert into public.bench_bare (body) values ($1)", values: [body] });
  const appenders = Array.from({ length: connections }, () => createAppender(base, body));
  const rates: { insert: number; append: number }[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    rates.push({
      insert: await rate(Array.from({ length: connections }, () => insert)),
      append: await rate(appenders),
    });
  }
  const median = (pick: (each: { insert: number; append: number }) => number) => middle(rates.map(pick));
  return {
    what: "append",
    bytes,
    connections,
    insert: median((each) => each.insert),
    append: median((each) => each.append),
    ratio: median((each) => each.append / each.insert),
  };
}

/** One agent: appends the next block of its own log each time. */
function createAppender(base: string, block: Uint8Array): () => Promise<void> {
  const token = `sov_proj_${crypto.randomUUID()}`;
  const hash = createHash("sha256").update(block).digest("hex");
  const ciphertext = block.toBase64();
  let sequence = 0;
  return async function append() {
    const response = await fetch(`${base}/replicate`, {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      body: JSON.stringify({
        chunks: [{ sequence_number: sequence++, block_hash: hash, ciphertext_b64: ciphertext }],
        merkle_root: ZERO_ROOT,
      }),
    });
    const text = await response.text();
    if (response.status !== 200) throw new Error(`${response.status} ${text}`);
  };
}

/** Operations a second of all workers together, each doing one at a time. */
async function rate(workers: (() => Promise<unknown>)[]): Promise<number> {
  const start = performance.now();
  let count = 0;
  await Promise.all(workers.map(async (work) => {
    while (performance.now() - start < ROUND_MS) {
      await work();
      count++;
    }
  }));
  return count / (performance.now() - start) * 1000;
}

async function measureReplay(base: string): Promise<number> {
  const token = `sov_proj_${crypto.randomUUID()}`;
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  const chunks = Array.from({ length: 1000 }, (_, sequence_number) => {
    const block = randomBytes(4096);
    return {
      sequence_number,
      block_hash: createHash("sha256").update(block).digest("hex"),
      ciphertext_b64: block.toString("base64"),
    };
  });
  const body = JSON.stringify({ chunks, merkle_root: ZERO_ROOT });
  const stored = await fetch(`${base}/replicate`, { method: "POST", headers, body });
  if (stored.status !== 200) throw new Error(await stored.text());
  await stored.body?.cancel();
  const times: number[] = [];
  for (let i = 0; i < REPLAYS; i++) {
    const start = performance.now();
    await (await fetch(`${base}/replay?since=-1`, { headers })).arrayBuffer();
    times.push(performance.now() - start);
  }
  return middle(times);
}

/** The real service as a process of its own, on a data directory that goes away with it. */
async function startService(parts: AsyncDisposableStack) {
  const dataDir = await Deno.makeTempDir({ prefix: "agent-state-bench-" });
  parts.defer(() => Deno.remove(dataDir, { recursive: true }));
  await Deno.chmod(dataDir, 0o711);
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "local/start.ts"],
    cwd: ROOT,
    env: { DATA_DIR: dataDir, PORT: "0", DATABASE_URL: "", PROJECT_TOKEN_QUOTA_BYTES: "999999999999" },
    stdout: "null",
    stderr: "inherit",
  }).spawn();
  parts.defer(async () => {
    child.kill("SIGTERM");
    await child.status;
  });
  for (let tries = 0; tries < 400; tries++) {
    const stack = await readStackFile(dataDir);
    if (stack?.pid === child.pid) return stack;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error("The service did not start");
}

async function save(figures: Record<string, unknown>): Promise<void> {
  const folder = join(ROOT, "bench/results");
  await Deno.mkdir(folder, { recursive: true });
  const path = join(folder, `${new Date().toISOString().slice(0, 10)}.json`);
  const conditions = { quick, rounds: ROUNDS, round_ms: ROUND_MS, cores: navigator.hardwareConcurrency };
  await Deno.writeTextFile(path, JSON.stringify({ conditions, ...figures }, undefined, 2) + "\n");
  print(`Written to ${path.slice(ROOT.length)}`);
}

function middle(values: number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]!;
}

await main();
