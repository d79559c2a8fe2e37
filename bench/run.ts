/**
 * `deno task bench [--quick] [--only=append,reads,…]`: what durable work costs, as ratios to baselines that are measured
 * in the same run. Service, Postgres and load generator share this machine. docs/performance.md reads the figures.
 */

import { join } from "node:path";
import { print } from "../local/print.ts";
import { openSessionIssuer } from "../local/session_issuer.ts";
import { APPEND_CASES, measureAppend, measureShapes } from "./appends.ts";
import { type Bench, ROOT, startBench } from "./bench_service.ts";
import { measureNpmPeers } from "./npm_peers.ts";
import { measureEtcd } from "./peers.ts";
import { measureReads, measureReplay, measureSnapshots } from "./reads.ts";
import { isMet, type Row } from "./rounds.ts";
import { measureAudit, measureLogLengths, measurePopulations } from "./scale.ts";
import { measureStartup } from "./startup.ts";

const quick = Deno.args.includes("--quick");
const only = Deno.args.find((argument) => argument.startsWith("--only="))?.slice(7).split(",");
const ROUNDS = quick ? { rounds: 5, ms: 400 } : { rounds: 9, ms: 1_500 };
const RUNS = quick ? 5 : 11;

type Section = [name: string, measure: (bench: Bench) => Promise<Row[]>];

const SECTIONS: Section[] = [
  ...APPEND_CASES.map((wanted): Section => ["append", (bench) => measureAppend(bench, wanted, ROUNDS)]),
  ["shapes", (bench) => measureShapes(bench, ROUNDS)],
  ["reads", (bench) => measureReads(bench, ROUNDS)],
  ["replay", (bench) => measureReplay(bench, 4_096, RUNS)],
  ...quick ? [] : [["replay", (bench) => measureReplay(bench, 262_144, 5)] as Section],
  ["snapshots", (bench) => measureSnapshots(bench, ROUNDS)],
  [
    "scale",
    (bench) => measureLogLengths(bench, quick ? [1_000, 100_000] : [1_000, 100_000, 1_000_000], ROUNDS),
  ],
  ["agents", (bench) => measurePopulations(bench, quick ? [1, 1_000] : [1, 1_000, 100_000], ROUNDS)],
  ["audit", async (bench) => {
    const issuer = await openSessionIssuer(bench.dataDir);
    return await measureAudit(
      bench,
      await issuer.issueSession({ sub: "bench-owner" }),
      quick ? 10_000 : 1_000_000,
    );
  }],
  ["peers", (bench) => measureEtcd(bench, ROUNDS)],
  ["peers", (bench) => measureNpmPeers(bench, ROUNDS)],
  ["startup", () => measureStartup(RUNS)],
];

async function main(): Promise<void> {
  const loadBefore = Deno.loadavg();
  await using parts = new AsyncDisposableStack();
  const bench = await startBench(parts);
  const rows: Row[] = [];
  printHead();
  for (const [name, measure] of SECTIONS) {
    if (only !== undefined && !only.includes(name)) continue;
    // Connections of one part are gone before the next.
    await using own = new AsyncDisposableStack();
    for (const row of await measure({ ...bench, parts: own })) {
      rows.push(row);
      printRow(row);
    }
  }
  await save(rows, { loadBefore, loadAfter: Deno.loadavg() });
}

function printHead(): void {
  const conditions = `${
    quick ? "quick; " : ""
  }${ROUNDS.rounds} rounds of ${ROUNDS.ms} ms a side, in turn; medians`;
  print(`${conditions}; ${navigator.hardwareConcurrency} cores for all; load ${showLoad(Deno.loadavg())}`);
  print(
    "fsync and synchronous_commit are on; the load is made by raw keep-alive connections in the bench's process\n",
  );
  print(`${"figure".padEnd(36)}${"ours".padStart(11)}${"baseline".padStart(11)}    ratio  target   against`);
}

function printRow(row: Row): void {
  const met = isMet(row);
  const columns = [
    row.what.padEnd(36),
    `${show(row.ours)} ${row.unit}`.padStart(11),
    `${show(row.theirs)} ${row.unit}`.padStart(11),
    row.ratio.toFixed(2).padStart(9),
    ` ${met === null ? " " : met ? "✓" : "✗"}${row.target.padEnd(7)}`,
    row.baseline,
  ];
  print(columns.join(" "));
}

function show(value: number): string {
  return value >= 100 ? value.toFixed(0) : value.toFixed(1);
}

function showLoad(load: number[]): string {
  return load.map((value) => value.toFixed(1)).join(" ");
}

/** A run that measured only some things does not replace one that measured all. */
async function save(rows: Row[], load: Record<string, number[]>): Promise<void> {
  const folder = join(ROOT, "bench/results");
  await Deno.mkdir(folder, { recursive: true });
  const part = only === undefined ? "" : `-${only.join("-")}`;
  const path = join(folder, `${new Date().toISOString().slice(0, 10)}${quick ? "-quick" : ""}${part}.json`);
  const conditions = {
    quick,
    ...ROUNDS,
    cores: navigator.hardwareConcurrency,
    deno: Deno.version.deno,
    ...load,
  };
  const shown = rows.map((row) => ({ ...row, met: isMet(row) }));
  await Deno.writeTextFile(path, JSON.stringify({ conditions, rows: shown }, undefined, 2) + "\n");
  print(`\nWritten to ${path.slice(ROOT.length)}`);
}

await main();
