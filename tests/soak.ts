/**
 * `deno task soak --minutes N`: mixed load on the live service while everything around it fails, Postgres being killed
 * as well. Ends with the figures, and with a failure when an acknowledgement was lost, a rule of `tests/invariants.sql`
 * was broken, an answer was neither 2xx, 4xx nor 503, recovery took longer than five seconds, or memory was not given back.
 */

import assert from "node:assert/strict";
import { parseArgs } from "node:util";
import { migrate } from "../local/migrate.ts";
import { type RunningPostgres, startPostgres } from "../local/postgres.ts";
import { print, printError } from "../local/print.ts";
import { chanceOf, newSeed } from "./support/chance.ts";
import { openClaim } from "./support/claims.ts";
import { makeTemplate } from "./support/database.ts";
import { openDirectWorld, type World } from "./support/harness.ts";
import { assertInvariants } from "./support/invariants.ts";
import { type Lab, openLab } from "./support/lab.ts";
import { type Nemesis, unleash } from "./support/nemesis.ts";
import { startLoad } from "./support/load.ts";

const FAULT_PAUSE_MS = 1_000;
const RULES_EVERY_MS = 5_000;
const RECOVERY_MS_MAX = 5_000;
/** What a process may hold more at the end than when it had warmed up, and what it may hold in any case. */
const MEMORY_GROWTH_MAX = 1.5;
const MEMORY_FREE = 192 * 2 ** 20;

const { values } = parseArgs({ options: { minutes: { type: "string", default: "10" } } });
const minutes = Number(values.minutes);
if (!(minutes > 0)) {
  printError("Usage: deno task soak --minutes N");
  Deno.exit(2);
}
const held = openClaim("Under load, faults and restarts no acknowledgement is lost and every rule holds");

await using parts = new AsyncDisposableStack();
const postgres = await bootPostgres(parts);
const world = await openDirectWorld();
parts.defer(() => world.close());
const lab = await openLab(world);
parts.use(lab);
await soak(postgres, world, lab);

async function bootPostgres(parts: AsyncDisposableStack): Promise<RunningPostgres> {
  const dataDir = await Deno.makeTempDir({ prefix: "agent-state-soak-" });
  parts.defer(() => Deno.remove(dataDir, { recursive: true }));
  // Root runs Postgres as another user, who must get in.
  await Deno.chmod(dataDir, 0o711);
  // Nothing may be lost in a crash, so everything is forced to disk, as in production.
  const postgres = await startPostgres({ dataDir, log: () => {}, extraSettings: { max_connections: "100" } });
  parts.defer(() => postgres.destroy());
  await makeTemplate(postgres.url, migrate);
  Deno.env.set("TEST_DATABASE_URL", postgres.url);
  return postgres;
}

async function soak(postgres: RunningPostgres, world: World, lab: Lab): Promise<void> {
  const seed = newSeed();
  const end = performance.now() + minutes * 60_000;
  const load = await startLoad(lab, chanceOf(seed));
  print(`Soaking for ${minutes} minutes, seed ${seed}: ${load.clients} clients, a fault about every second.`);

  const recoveries: number[] = [];
  async function killPostgres(): Promise<void> {
    Deno.kill(postgres.pid(), "SIGKILL");
    while (await world.sql.query("select 1").then(() => false, () => true)) await sleep(20);
    const backAt = performance.now();
    while (load.lastSuccessAt() < backAt && performance.now() - backAt < 60_000) await sleep(20);
    recoveries.push(performance.now() - backAt);
  }

  let rulesChecked = 0;
  async function checkRules(): Promise<void> {
    while (performance.now() < end) {
      await sleep(RULES_EVERY_MS);
      const broken = await assertInvariants(world.sql).then(() => undefined, (error) => error as Error);
      if (broken instanceof assert.AssertionError) throw broken;
      if (broken === undefined) rulesChecked++;
    }
  }

  const checking = checkRules();
  // In the second half the process lives on, so that what it holds can be compared.
  const rough = unleash(lab, chanceOf(seed), {
    kills: true,
    pauseMs: FAULT_PAUSE_MS,
    more: { "Postgres is killed": killPostgres },
  });
  await sleepUntil(end - minutes * 30_000);
  await rough.stop();
  const steady = unleash(lab, chanceOf(seed + 1), {
    kills: false,
    pauseMs: FAULT_PAUSE_MS,
    more: { "Postgres is killed": killPostgres },
  });
  await sleepUntil(end - minutes * 24_000);
  const warm = await lab.memory();
  await sleepUntil(end);
  await steady.stop();
  await checking;
  const acknowledged = await load.stop();
  const last = await settledMemory(lab, warm);
  await assertInvariants(world.sql);

  report(load, [rough, steady], recoveries, rulesChecked, acknowledged, [warm, last]);
  assert.ok(rulesChecked > 0, "the rules were never checked");
  assert.deepEqual(load.unexpected, [], "every answer is 2xx, 4xx or 503");
  assert.deepEqual(load.lost, [], "every acknowledged write is there");
  assert.ok(Math.max(0, ...recoveries) <= RECOVERY_MS_MAX, "serving again within five seconds");
  assert.ok(
    last <= Math.max(warm * MEMORY_GROWTH_MAX, MEMORY_FREE),
    `memory grew from ${warm} to ${last} bytes`,
  );
  held(acknowledged);
  print("Held.");
}

/** What the process holds once it has had time to give back what it does not need. */
async function settledMemory(lab: Lab, enough: number): Promise<number> {
  let memory = await lab.memory();
  for (let tries = 0; tries < 20 && memory > enough; tries++) {
    await sleep(500);
    memory = Math.min(memory, await lab.memory());
  }
  return memory;
}

function report(
  load: Awaited<ReturnType<typeof startLoad>>,
  nemeses: Nemesis[],
  recoveries: number[],
  rulesChecked: number,
  acknowledged: number,
  [warm, last]: [number, number],
): void {
  const faults: Record<string, number> = {};
  for (const { done } of nemeses) {
    for (const [name, count] of Object.entries(done)) faults[name] = (faults[name] ?? 0) + count;
  }
  const mebibytes = (bytes: number) => `${Math.round(bytes / 2 ** 20)} MiB`;
  const rows: [string, string][] = [
    ["requests", String(load.requests())],
    ["answers", Object.entries(load.statuses).map(([status, count]) => `${status}: ${count}`).join(", ")],
    ["acknowledged writes, all found again", String(acknowledged - load.lost.length)],
    ["acknowledged writes that were lost", String(load.lost.length)],
    ["rules checked, all held", `${rulesChecked} times`],
    ...Object.entries(faults).map(([name, count]): [string, string] => [name, String(count)]),
    ["longest time from Postgres being back to a success", `${Math.round(Math.max(0, ...recoveries))} ms`],
    ["memory when warm, and at the end", `${mebibytes(warm)}, ${mebibytes(last)}`],
    ["latency of a success, median and 99 %", load.latencies()],
  ];
  print(["", "| | |", "|---|---|", ...rows.map(([name, value]) => `| ${name} | ${value} |`), ""].join("\n"));
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

async function sleepUntil(time: number): Promise<void> {
  while (performance.now() < time) await sleep(Math.min(time - performance.now(), 250));
}
