/** Reads against the least that the same parts can do, and snapshots against the blob store alone. */

import { readTextIfExists } from "../local/files.ts";
import { openBlobFiles } from "../local/blob_files.ts";
import {
  type Bench,
  headersOf,
  newBlock,
  newPaidKey,
  openAppender,
  openClients,
  openRepeater,
  send,
  startProcess,
  times,
  until,
  ZERO_ROOT,
} from "./bench_service.ts";
import { Connection, makeRequest } from "./connection.ts";
import { interleave, median, rateRow, type Rounds, type Row, timeInTurn, timeRow } from "./rounds.ts";

const CONNECTIONS = 8;
const MIB = 1024 * 1024;

/** GET /head and /metadata against `select 1`; the whole append against parsing and decoding its body. */
export async function measureReads(bench: Bench, rounds: Rounds): Promise<Row[]> {
  const bare = await startBare(bench);
  const block = newBlock(4_096);
  const { token } = await newPaidKey(bench);
  await (await openAppender(bench, token, block))();
  const get = (path: string) => makeRequest("GET", `${bench.base}${path}`, headersOf(token));
  const chunk = `{"sequence_number":0,"block_hash":"${block.hash}","ciphertext_b64":"${block.base64}"}`;
  const body = `{"chunks":[${chunk}],"merkle_root":"${ZERO_ROOT}"}`;
  const repeat = (url: string, request: Uint8Array) => times(CONNECTIONS, () => openRepeater(url, request));
  const sides = await interleave({
    select: await repeat(bare, makeRequest("GET", `${bare}/select`, {})),
    head: await repeat(bench.url, get("/head")),
    metadata: await repeat(bench.url, get("/metadata")),
    decode: await repeat(bare, makeRequest("POST", `${bare}/decode`, headersOf(token), body)),
    append: await times(CONNECTIONS, async () => openAppender(bench, (await newPaidKey(bench)).token, block)),
  }, rounds);
  return [
    rateRow("GET /head", "Hono and select 1", sides.head, sides.select, "≥ 0.85"),
    rateRow("GET /metadata", "Hono and select 1", sides.metadata, sides.select, "≥ 0.85"),
    rateRow("append 4 KiB, 8 connections", "Hono that only decodes", sides.append, sides.decode, ""),
  ];
}

/** GET /replay of 1,000 entries against the driver reading the same rows; memory and the first byte with it. */
export async function measureReplay(bench: Bench, bytes: number, runs: number): Promise<Row[]> {
  const { token, accountId } = await newPaidKey(bench);
  const block = newBlock(bytes);
  const count = Math.min(Math.floor(4 * MIB / bytes), 1_000);
  const append = await openAppender(bench, token, block, { count });
  for (let written = 0; written < 1_000; written += count) await append();
  const connection = await Connection.open(bench.url);
  const request = makeRequest("GET", `${bench.base}/replay?since=-1`, headersOf(token));
  const rows = `select e.* from app.log_entries e join app.logs l on l.id = e.log_id
                 where l.owner_id = $1 order by e.sequence_number limit 1000`;
  const [driver] = await openClients(bench, 1, (client) => client.query({ text: rows, values: [accountId] }));
  const before = await residentBytes(bench.pid);
  let peak = before;
  const watch = setInterval(async () => peak = Math.max(peak, await residentBytes(bench.pid)), 5);
  const time = await timeInTurn({ driver: driver!, replay: () => send(connection, request) }, runs);
  clearInterval(watch);
  const first = await timeToFirstByte(bench, token, runs);
  const what = `replay of 1,000 × ${bytes / 1024} KiB`;
  return [
    timeRow(what, "the driver reading the rows", median(time.replay), median(time.driver), "≤ 2.5"),
    timeRow("its first byte, of 100 ms", "100 ms", first, 100, "≤ 1"),
    { ...timeRow("its memory, of 64 MiB", "64 MiB", (peak - before) / MIB, 64, "≤ 1"), unit: "MiB" },
  ];
}

/** POST /snapshot of 64 KiB against the blob store keeping the same bytes. */
export async function measureSnapshots(bench: Bench, rounds: Rounds): Promise<Row[]> {
  const folder = await Deno.makeTempDir({ prefix: "agent-state-bench-blobs-" });
  bench.parts.defer(() => Deno.remove(folder, { recursive: true }));
  const store = await openBlobFiles(`${folder}/blobs`, () => bench.url);
  const block = newBlock(65_536);
  const put = () => store.put(`${crypto.randomUUID()}/agent/seq-0.bin`, block.bytes);
  const { snapshot, blob } = await interleave({
    blob: await times(CONNECTIONS, () => Promise.resolve(put)),
    snapshot: await times(CONNECTIONS, async (i) => {
      const connection = await Connection.open(bench.url);
      const { token } = await newPaidKey(bench);
      let sequence = 0;
      return async function upload() {
        const body = JSON.stringify({
          agent_id: `agent-${i}`,
          sequence_number: sequence,
          parent_snapshot: sequence === 0 ? null : "parent",
          policy_hash: ZERO_ROOT,
          client_payload_hash: block.hash,
          ciphertext_b64: block.base64,
          byte_size: block.bytes.length,
          timestamp: "2026-11-20T12:00:00.000Z",
        });
        await send(connection, makeRequest("POST", `${bench.base}/snapshot`, headersOf(token), body));
        sequence++;
      };
    }),
  }, rounds);
  return [rateRow("snapshot 64 KiB, 8 connections", "the blob store alone", snapshot, blob, "≥ 0.6")];
}

async function startBare({ databaseUrl, parts }: Bench): Promise<string> {
  const file = await Deno.makeTempFile();
  parts.defer(() => Deno.remove(file));
  startProcess(parts, "bench/bare_hono.ts", { BARE_DATABASE_URL: databaseUrl, BARE_PORT_FILE: file });
  return `http://127.0.0.1:${await until(
    "the bare service starts",
    async () => await readTextIfExists(file) || undefined,
  )}`;
}

async function timeToFirstByte({ base }: Bench, token: string, runs: number): Promise<number> {
  const times: number[] = [];
  for (let i = 0; i < runs; i++) {
    const start = performance.now();
    const { body } = await fetch(`${base}/replay?since=-1`, { headers: headersOf(token) });
    const reader = body!.getReader();
    await reader.read();
    times.push(performance.now() - start);
    await reader.cancel();
  }
  return median(times);
}

/** Resident memory of a process; 0 where the system does not tell. */
async function residentBytes(pid: number): Promise<number> {
  const status = await readTextIfExists(`/proc/${pid}/status`);
  return Number(/^VmRSS:\s+([0-9]+) kB/m.exec(status ?? "")?.[1] ?? 0) * 1024;
}
