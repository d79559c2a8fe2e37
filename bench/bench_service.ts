/** What is measured: the real service as a process of its own, its Postgres, and callers with credit. */

import { createHash, randomBytes } from "node:crypto";
// @deno-types="npm:@types/pg@8.23.1"
import pg from "pg";
import { readStackFile } from "../local/data_dir.ts";
import { maskKey, mintLiveKey } from "../supabase/functions/_shared/domain/credential.ts";
import { Connection, makeRequest } from "./connection.ts";
import type { Work } from "./rounds.ts";

export const ROOT = new URL("..", import.meta.url).pathname;
export const ZERO_ROOT = "0".repeat(64);
const CREDITS_MILLI = 1_000_000_000_000;

/** A running service and a way past it, into its database. */
export interface Bench {
  /** Origin, and the address of the function. */
  url: string;
  base: string;
  databaseUrl: string;
  pool: pg.Pool;
  dataDir: string;
  /** Process id of the service. */
  pid: number;
  parts: AsyncDisposableStack;
}

/** Starts the service on a data directory that goes away with it. */
export async function startBench(parts: AsyncDisposableStack): Promise<Bench> {
  const dataDir = await Deno.makeTempDir({ prefix: "agent-state-bench-" });
  parts.defer(() => Deno.remove(dataDir, { recursive: true }));
  await Deno.chmod(dataDir, 0o711);
  const env = {
    DATA_DIR: dataDir,
    PORT: "0",
    DATABASE_URL: "",
    PROJECT_TOKEN_QUOTA_BYTES: "999999999999",
    RATE_LIMIT_PER_SECOND: "999999999",
  };
  const pid = startProcess(parts, "local/start.ts", env);
  const stack = await until("the service starts", async () => {
    const found = await readStackFile(dataDir);
    return found?.pid === pid ? found : undefined;
  });
  const pool = new pg.Pool({ connectionString: stack.databaseUrl, max: 4 });
  parts.defer(() => pool.end());
  await pool.query("create table public.bench_bare (id bigint generated always as identity, body bytea)");
  await pool.query("alter table public.bench_bare alter column body set storage external");
  const base = `${stack.url}/functions/v1/v2-agent-state`;
  return { url: stack.url, base, databaseUrl: stack.databaseUrl, pool, dataDir, pid, parts };
}

/** Runs a program of this repository until the bench ends. Returns its process id. */
export function startProcess(parts: AsyncDisposableStack, file: string, env: Record<string, string>): number {
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", file],
    cwd: ROOT,
    env,
    stdout: "null",
    stderr: "inherit",
  }).spawn();
  parts.defer(async () => {
    child.kill("SIGTERM");
    await child.status;
  });
  return child.pid;
}

/** Waits, at most for a minute, until `check` gives something. */
export async function until<T>(what: string, check: () => Promise<T | undefined>): Promise<T> {
  for (let tries = 0; tries < 600; tries++) {
    const found = await check();
    if (found !== undefined) return found;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error(`Waited in vain until ${what}`);
}

/** A new account with more credit than any bench spends, and a key of it. */
export async function newPaidKey({ pool }: Bench): Promise<{ accountId: string; token: string }> {
  const { rows } = await pool.query(
    "select api.grant_credits($1, $2, 'bench', '', gen_random_uuid()) ->> 'account_id' as id",
    [`bench-${crypto.randomUUID()}`, CREDITS_MILLI],
  );
  return { accountId: rows[0].id, token: await newKey(pool, rows[0].id, null) };
}

async function newKey(pool: pg.Pool, accountId: string, teamId: string | null): Promise<string> {
  const token = mintLiveKey((count) => randomBytes(count));
  await pool.query(
    "insert into app.api_keys (account_id, team_id, name, key_hash, masked_key) values ($1, $2, 'bench', $3, $4)",
    [accountId, teamId, createHash("sha256").update(token).digest(), maskKey(token)],
  );
  return token;
}

/** Keys of agents with a log each, for all of which one account pays. */
export async function newAgentsOfOne(bench: Bench, count: number): Promise<string[]> {
  const { pool } = bench;
  const payer = await newPaidKey(bench);
  const { rows: [{ id }] } = await pool.query("insert into app.owners (kind) values ('team') returning id");
  await pool.query("insert into app.teams (id, account_id, name) values ($1, $2, 'bench')", [
    id,
    payer.accountId,
  ]);
  return await Promise.all(Array.from({ length: count }, async () => {
    const { accountId } = await newPaidKey(bench);
    const member =
      "insert into app.team_members (team_id, account_id, role, status) values ($1, $2, 'write', 'active')";
    await pool.query(member, [id, accountId]);
    return await newKey(pool, accountId, id);
  }));
}

/** A block and what a request says of it. */
export interface Block {
  bytes: Uint8Array;
  hash: string;
  base64: string;
}

export function newBlock(size: number): Block {
  const bytes = randomBytes(size);
  return {
    bytes,
    hash: createHash("sha256").update(bytes).digest("hex"),
    base64: bytes.toString("base64"),
  };
}

export function headersOf(token: string): Record<string, string> {
  return { authorization: `Bearer ${token}`, "content-type": "application/json" };
}

/** One agent that appends `count` blocks at a time to its log, from `first` on. */
export async function openAppender(
  { url, base }: Bench,
  token: string,
  block: Block,
  { first = 0, count = 1 } = {},
): Promise<Work> {
  const connection = await Connection.open(url);
  let sequence = first;
  const show = (number: number) =>
    `{"sequence_number":${number},"block_hash":"${block.hash}","ciphertext_b64":"${block.base64}"}`;
  return async function append() {
    const chunks = Array.from({ length: count }, (_, i) => show(sequence + i)).join();
    const body = `{"chunks":[${chunks}],"merkle_root":"${ZERO_ROOT}"}`;
    await send(connection, makeRequest("POST", `${base}/replicate`, headersOf(token), body));
    sequence += count;
  };
}

/** Sends the same request again and again. */
export async function openRepeater(url: string, request: Uint8Array): Promise<Work> {
  const connection = await Connection.open(url);
  return () => send(connection, request);
}

export async function send(connection: Connection, request: Uint8Array): Promise<void> {
  const { status, body } = await connection.send(request);
  if (status !== 200) throw new Error(`${status} ${new TextDecoder().decode(body)}`);
}

/** Bare durable inserts of the same bytes: a connection each, a prepared statement, the bytes in binary. */
export async function openInserters(bench: Bench, bytes: Uint8Array, connections: number): Promise<Work[]> {
  const query = { name: "bare", text: "insert into public.bench_bare (body) values ($1)", values: [bytes] };
  return await openClients(bench, connections, (client) => client.query(query));
}

/** One query again and again on connections of its own. */
export async function openClients(
  { databaseUrl, parts }: Bench,
  connections: number,
  run: (client: pg.Client) => Promise<unknown>,
): Promise<Work[]> {
  return await Promise.all(Array.from({ length: connections }, async () => {
    const client = new pg.Client({ connectionString: databaseUrl });
    await client.connect();
    parts.defer(() => client.end());
    return () => run(client);
  }));
}

/** One worker for each connection. */
export function times<T>(count: number, make: (index: number) => Promise<T>): Promise<T[]> {
  return Promise.all(Array.from({ length: count }, (_, i) => make(i)));
}
