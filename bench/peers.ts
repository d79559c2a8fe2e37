/** Other servers at the same work, where they are installed: each as a process of its own, with the durability it has. */

import { encodeBase64 } from "../supabase/functions/_shared/domain/bytes.ts";
import { type Bench, newBlock, newPaidKey, openAppender, send, times, until } from "./bench_service.ts";
import { Connection, makeRequest } from "./connection.ts";
import { freePort } from "./npm_peers.ts";
import { interleave, rateRow, type Rounds, type Row } from "./rounds.ts";

const CONNECTIONS = 8;
const BYTES = 4_096;

/** POST /replicate against `put` of etcd, which flushes each too; nothing where etcd is not installed. */
export async function measureEtcd(bench: Bench, rounds: Rounds): Promise<Row[]> {
  const url = await startEtcd(bench.parts);
  if (url === undefined) return [];
  const block = newBlock(BYTES);
  let key = 0;
  const { append, put } = await interleave({
    put: await times(CONNECTIONS, async () => {
      const connection = await Connection.open(url);
      return () => {
        const body = `{"key":"${
          encodeBase64(new TextEncoder().encode(`key-${key++}`))
        }","value":"${block.base64}"}`;
        return send(connection, makeRequest("POST", `${url}/v3/kv/put`, {}, body));
      };
    }),
    append: await times(CONNECTIONS, async () => openAppender(bench, (await newPaidKey(bench)).token, block)),
  }, rounds);
  return [
    rateRow("append 4 KiB, 8 connections", "etcd put over its JSON gateway, fsync", append, put, "≥ 1.2"),
  ];
}

async function startEtcd(parts: AsyncDisposableStack): Promise<string | undefined> {
  const folder = await Deno.makeTempDir({ prefix: "agent-state-bench-etcd-" });
  parts.defer(() => Deno.remove(folder, { recursive: true }));
  const [client, peer] = [freePort(), freePort()].map((port) => `http://127.0.0.1:${port}`);
  const args = [
    ...["--data-dir", `${folder}/data`, "--listen-client-urls", client!, "--advertise-client-urls", client!],
    ...["--listen-peer-urls", peer!, "--initial-advertise-peer-urls", peer!],
    ...["--initial-cluster", `default=${peer}`, "--log-level", "error"],
  ];
  let child: Deno.ChildProcess;
  try {
    child = new Deno.Command("etcd", { args, stdout: "null", stderr: "null" }).spawn();
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
  parts.defer(async () => {
    child.kill("SIGTERM");
    await child.status;
  });
  await until("etcd serves", async () => {
    const health = await fetch(`${client}/health`).catch(() => undefined);
    return (await health?.text())?.includes("true") || undefined;
  });
  return client;
}
