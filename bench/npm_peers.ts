/** Servers from npm at the same work: installed for the bench alone, each a process of its own on a folder of its own. */

import { delimiter, join } from "node:path";
import { print } from "../local/print.ts";
import { type Bench, newBlock, newPaidKey, openAppender, ROOT, times, until } from "./bench_service.ts";
import { Connection, makeRequest } from "./connection.ts";
import { interleave, rateRow, type Rounds, type Row, type Work } from "./rounds.ts";

/** The peers' own Node, as the relay wants a newer one than most machines have, and compiles for the one it runs on. */
const NODE = `node-${Deno.build.os}-${Deno.build.arch === "x86_64" ? "x64" : "arm64"}`;

/** What is installed, for each peer; nothing of it is a dependency of this project. */
const PINS = {
  node: [`${NODE}@24.21.0`],
  evolu: ["@evolu/nodejs@3.0.0-next.3", "@evolu/common@8.0.0-next.5"],
  durableStreams: ["@durable-streams/server@0.3.7"],
};

const BYTES = 4_096;
const PROGRAMS = join(ROOT, "bench/peers");
/** A native module may have to be compiled, which takes minutes; so installed peers are kept for the next run. */
const INSTALL_MS = 300_000;
const INSTALLED = join(ROOT, "node_modules/.cache/bench-peers");

interface NpmPeer {
  pins: string[];
  /** What the row is against: name, version, durability. */
  baseline: string;
  target: string;
  /** Starts the server, and gives the work of each connection. */
  open(parts: AsyncDisposableStack, modules: string, connections: number): Promise<Work[]>;
}

const PEERS: readonly NpmPeer[] = [
  {
    pins: PINS.evolu,
    baseline: "Evolu relay (E2EE), @evolu/nodejs 3.0.0-next.3; SQLite, rollback journal, synchronous=FULL",
    target: "≥ 5",
    open: openEvolu,
  },
  {
    pins: PINS.durableStreams,
    baseline: "durable-streams server 0.3.7; fdatasync of each append, then LMDB",
    target: "",
    open: openDurableStreams,
  },
];

/** POST /replicate against each peer that can be installed; a line says which could not. */
export async function measureNpmPeers(bench: Bench, rounds: Rounds): Promise<Row[]> {
  const connections = 8;
  const block = newBlock(BYTES);
  const rows: Row[] = [];
  for (const { pins, baseline, target, open } of PEERS) {
    await using own = new AsyncDisposableStack();
    let peer: Work[];
    try {
      await install(PINS.node);
      peer = await open(own, await install(pins), connections);
    } catch (error) {
      print(`left out: ${pins[0]}, ${error instanceof Error ? error.message : error}`);
      continue;
    }
    const { append, theirs } = await interleave({
      theirs: peer,
      append: await times(
        connections,
        async () => openAppender(bench, (await newPaidKey(bench)).token, block),
      ),
    }, rounds);
    rows.push(rateRow(`append 4 KiB, ${connections} connections`, baseline, append, theirs, target));
  }
  return rows;
}

async function openEvolu(parts: AsyncDisposableStack, modules: string, connections: number): Promise<Work[]> {
  const port = freePort();
  await startNode(parts, "evolu_relay.mjs", [modules, String(port)]);
  await untilListens(port);
  const url = `ws://127.0.0.1:${port}`;
  const args = [modules, url, String(connections), String(BYTES)];
  const client = await startNode(parts, "evolu_client.mjs", args, "piped");
  return await stepByLine(client, connections);
}

/** Work of a program that does a step for each line it is sent, and answers with a line. */
async function stepByLine(child: Deno.ChildProcess, connections: number): Promise<Work[]> {
  const waiting = new Map<string, PromiseWithResolvers<void>>([["ready", Promise.withResolvers()]]);
  const ready = waiting.get("ready")!.promise;
  async function readAnswers() {
    let rest = "";
    for await (const text of child.stdout.pipeThrough(new TextDecoderStream())) {
      const lines = (rest + text).split("\n");
      rest = lines.pop()!;
      for (const line of lines) {
        const [step, ...error] = line.split(" ");
        if (error.length === 0) waiting.get(step!)?.resolve();
        else waiting.get(step!)?.reject(new Error(error.join(" ")));
      }
    }
    for (const { reject } of waiting.values()) reject(new Error("The client of the peer ended"));
  }
  // Nobody waits for a step after the last round, when the program is ended.
  readAnswers();
  await ready;
  const writer = child.stdin.getWriter();
  const encoder = new TextEncoder();
  return Array.from({ length: connections }, (_, i) => async () => {
    const answer = Promise.withResolvers<void>();
    waiting.set(String(i), answer);
    await writer.write(encoder.encode(`${i}\n`));
    await answer.promise;
    waiting.delete(String(i));
  });
}

async function openDurableStreams(
  parts: AsyncDisposableStack,
  modules: string,
  connections: number,
): Promise<Work[]> {
  const port = freePort();
  await startNode(parts, "durable_streams.mjs", [modules, String(port)]);
  await untilListens(port);
  const url = `http://127.0.0.1:${port}`;
  const { bytes } = newBlock(BYTES);
  const headers = { "content-type": "application/octet-stream" };
  return await times(connections, async (i) => {
    const created = await fetch(`${url}/stream-${i}`, { method: "PUT", headers });
    await created.body?.cancel();
    if (created.status !== 201) throw new Error(`no stream was made: ${created.status}`);
    const connection = await Connection.open(url);
    const request = makeRequest("POST", `${url}/stream-${i}`, headers, bytes);
    return async () => {
      const { status } = await connection.send(request);
      if (status !== 204) throw new Error(`durable-streams answered ${status}`);
    };
  });
}

/** Installs packages into a folder of their own, unless an earlier run has. Returns their node_modules. */
async function install(pins: string[]): Promise<string> {
  const folder = join(INSTALLED, pins.join("+").replaceAll("/", "-"));
  const modules = join(folder, "node_modules");
  const done = join(folder, "installed");
  const isDone = await Deno.stat(done).then(() => true, () => false);
  if (isDone) return modules;
  print(`installing ${pins.join(", ")}`);
  await Deno.mkdir(folder, { recursive: true });
  const { code, stderr } = await new Deno.Command("npm", {
    args: ["install", "--prefix", folder, "--no-audit", "--no-fund", "--loglevel=error", ...pins],
    cwd: folder,
    // What is compiled is compiled for the Node that runs it.
    env: { PATH: nodePath(), npm_config_nodedir: nodeFolder() },
    stdin: "null",
    stdout: "null",
    stderr: "piped",
    signal: AbortSignal.timeout(INSTALL_MS),
  }).output();
  if (code !== 0) {
    throw new Error(`npm could not install it: ${new TextDecoder().decode(stderr).split("\n")[0]}`);
  }
  await Deno.writeTextFile(done, "");
  return modules;
}

function nodeFolder(): string {
  return join(INSTALLED, PINS.node.join(), "node_modules", NODE);
}

function nodePath(): string {
  return [join(nodeFolder(), "bin"), Deno.env.get("PATH")].join(delimiter);
}

/** Runs a program of bench/peers in a new folder; both go away with `parts`. */
async function startNode(
  parts: AsyncDisposableStack,
  program: string,
  args: string[],
  stdio: "piped" | "null" = "null",
): Promise<Deno.ChildProcess> {
  const folder = await Deno.makeTempDir({ prefix: "agent-state-bench-peer-" });
  parts.defer(() => Deno.remove(folder, { recursive: true }));
  const child = new Deno.Command(join(nodeFolder(), "bin/node"), {
    args: [join(PROGRAMS, program), ...args],
    cwd: folder,
    stdin: stdio,
    stdout: stdio,
    stderr: "inherit",
  }).spawn();
  parts.defer(async () => {
    child.kill("SIGTERM");
    await child.status;
  });
  return child;
}

async function untilListens(port: number): Promise<void> {
  await until("the peer listens", async () => {
    const connection = await Deno.connect({ hostname: "127.0.0.1", port }).catch(() => undefined);
    connection?.close();
    return connection && true;
  });
}

/** A port that nobody listens on. */
export function freePort(): number {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  return listener.addr.port;
}
