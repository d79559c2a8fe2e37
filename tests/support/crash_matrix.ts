/**
 * The crash matrix: one operation, one fault, against the live service in a process of its own; then recovery, then
 * what must hold, then the same request again.
 */

import assert from "node:assert/strict";
import { openClaim, THOROUGH } from "./claims.ts";
import { eventually } from "./eventually.ts";
import type { Failpoint } from "./failpoints.ts";
import { codeOf } from "./refusals.ts";
import { type Answer, onOneBackend, type World } from "./harness.ts";
import { assertInvariants } from "./invariants.ts";
import { type Lab, openLab } from "./lab.ts";
import { finishJob, mutating, type Operation, sendTo } from "./operations/mod.ts";
import type { Moment } from "./wire_proxy.ts";

/** What goes wrong in a cell of the matrix. */
type Fault =
  /** The effect at a failpoint fails, or its answer is lost, every time. */
  | { kind: "fail"; point: Failpoint }
  /** The process is killed at a failpoint. */
  | { kind: "kill"; point: Failpoint }
  /** The process is held at a failpoint while the same request is sent a second time. */
  | { kind: "overtake"; point: Failpoint }
  /** The connection to Postgres is cut at a moment of a call. */
  | { kind: "cut"; call: string; moment: Moment; times: 1 | undefined };

const HELD_MS = 10_000;
const OVERTAKING_MS = 100;

type Mutating = Operation & { effect: "once" | "each" };

/** Where a fast run, too, tries all there is. */
const MOST_AT_STAKE = /^POST \/(snapshot|replicate|billing\/webhook)$/;

/**
 * Defines a test for each mutating operation whose route matches: every boundary between two effects × {it fails, the
 * process is killed there, the same request overtakes it there}, and every call of the database cut before and after its
 * commit, once and always. A fast run tries a few cells of most operations, and all of those where most is at stake.
 */
export function defineCrashMatrix(routes: RegExp, app?: "vault"): void {
  onOneBackend((test) => {
    let lab: Promise<Lab> | undefined;
    const labOf = (world: World) => lab ??= openLab(world);
    const tried = { cut: 0, fail: 0, kill: 0, overtake: 0 };
    const claims: Record<Fault["kind"], (cases: number) => void> = {
      kill: openClaim("An acknowledged write survives the death of the process at any boundary"),
      cut: openClaim("… a connection cut before or after the commit"),
      fail: openClaim("… an effect that fails at any boundary"),
      overtake: openClaim("… the same request overtaking it at any boundary"),
    };

    for (const operation of mutating().filter((each) => each.app === app && routes.test(each.route))) {
      test(`${operation.route} survives every fault: ${operation.name}`, async (world) => {
        const bench = await labOf(world);
        const faults = await discoverFaults(bench, operation);
        const all = THOROUGH || MOST_AT_STAKE.test(operation.route);
        for (const fault of all ? faults : pickFew(faults)) {
          try {
            await tryCell(bench, operation, fault);
          } catch (error) {
            const { message } = error as Error;
            throw new Error(`${operation.route}, ${describeFault(fault)}: ${message}`, { cause: error });
          }
          tried[fault.kind]++;
        }
      });
    }

    test("after every fault the books, the chains and the logs are right", async (world) => {
      await (await labOf(world))[Symbol.asyncDispose]();
      await assertInvariants(world.sql);
      for (const [kind, held] of Object.entries(claims)) held(tried[kind as Fault["kind"]]);
    });
  });
}

/** The first call's lost answer and lost commit, and a kill right after its effect: where most is lost when any is. */
function pickFew(faults: Fault[]): Fault[] {
  const cuts = faults.filter((fault) => fault.kind === "cut" && fault.times === undefined).slice(0, 2);
  const after = faults.filter((fault) => fault.kind === "kill" && fault.point.endsWith(":after")).slice(0, 1);
  return [...cuts, ...after];
}

/** The name of a cell, for the reader of a failure. */
function describeFault(fault: Fault): string {
  if (fault.kind !== "cut") return `${fault.kind} at ${fault.point}`;
  return `${fault.call} cut ${fault.moment} ${fault.times === 1 ? "once" : "always"}`;
}

/** Runs an operation without a fault, and returns every fault that it can meet. */
async function discoverFaults(lab: Lab, operation: Operation): Promise<Fault[]> {
  const { path, options, check } = await operation.prepare(lab.world);
  await lab.quiet();
  await lab.forget();
  const before = lab.wire.calls.length;
  const answer = await sendTo(lab, operation, path, options);
  assert.equal(answer?.status, operation.status, answer?.text ?? "no answer");
  await lab.quiet();
  await check?.();
  const points = [...new Set(await lab.points())];
  const calls = [...new Set(lab.wire.calls.slice(before))];
  const moments: Moment[] = ["uncommitted", "unanswered"];
  return [
    ...points.flatMap((point): Fault[] => [
      { kind: "fail", point },
      { kind: "kill", point },
      { kind: "overtake", point },
    ]),
    ...calls.flatMap((call) =>
      moments.flatMap((moment): Fault[] => [
        { kind: "cut", call, moment, times: 1 },
        { kind: "cut", call, moment, times: undefined },
      ])
    ),
  ];
}

/** Tries one cell. Fails when anything that was told or kept is not as it must be. */
async function tryCell(lab: Lab, operation: Mutating, fault: Fault): Promise<void> {
  const prepared = await operation.prepare(lab.world);
  const send = () => sendTo(lab, operation, prepared.path, prepared.options);
  const before = await prepared.count!();
  const told = await sendUnder(lab, fault, send);
  for (const answer of told) assertHonest(operation, answer);

  const done = await prepared.count!() - before;
  // A job leaves what it could not finish to its next run, and says so with success all the same.
  if (!operation.job) assertCounted(operation, told, done);

  await prepared.lapse?.();
  const again = await send();
  const statuses = [operation.status, ...(done > 0 ? operation.again ?? [] : [])];
  assert.ok(again !== undefined && statuses.includes(again.status), `again: ${again?.status} ${again?.text}`);
  if (operation.job) await finishJob(prepared, send);
  await lab.quiet();
  assertCounted(operation, [...told, again], await prepared.count!() - before);
  if (operation.effect === "once") assert.equal(await prepared.count!() - before, 1, "it is done, once");
  await prepared.check?.();
}

/** Sends the request while the fault is there, and recovers. Returns what the clients were told. */
async function sendUnder(
  lab: Lab,
  fault: Fault,
  send: () => Promise<Answer | undefined>,
): Promise<(Answer | undefined)[]> {
  switch (fault.kind) {
    case "cut": {
      const injected = lab.wire.inject(fault);
      const answer = await send();
      await lab.quiet();
      injected.lift();
      return [answer];
    }
    case "fail": {
      await lab.arm(fault.point, "fail");
      const answer = await send();
      await lab.quiet();
      await lab.lift();
      return [answer];
    }
    case "kill": {
      await lab.arm(fault.point, "kill", 1);
      const answer = await send();
      // A failpoint in the background comes after the answer.
      assert.ok(await lab.hasDied(), `nobody came to ${fault.point}`);
      await lab.restart();
      return [answer];
    }
    case "overtake":
      return await overtake(lab, fault.point, send);
  }
}

/** Holds the first request and sends a second one, which may have to wait for the first (a lock, a place in line). */
async function overtake(lab: Lab, point: Failpoint, send: () => Promise<Answer | undefined>) {
  await lab.arm(point, "hold", 1);
  const first = send();
  try {
    await eventually(`somebody is held at ${point}`, async () => await lab.held() > 0, HELD_MS);
    const second = send();
    await Promise.race([second, new Promise((resolve) => setTimeout(resolve, OVERTAKING_MS))]);
    await lab.lift();
    return await Promise.all([first, second]);
  } finally {
    await lab.lift();
    await lab.quiet();
  }
}

/** Whatever happens: success, a refusal that is a 4xx, 503 with when to come back, or no answer at all. */
function assertHonest({ status }: Operation, answer: Answer | undefined): void {
  if (answer === undefined || answer.status === status) return;
  assert.equal(typeof codeOf(answer), "string", answer.text);
  if (answer.status === 503) assert.match(answer.headers.get("retry-after") ?? "", /^\d+$/);
  else assert.ok(answer.status >= 400 && answer.status < 500, `${answer.status} ${answer.text}`);
}

/** What was acknowledged is there, and nothing is there that nobody asked for. */
function assertCounted(
  { effect, status }: Mutating,
  told: (Answer | undefined)[],
  done: number,
): void {
  const acknowledged = told.filter((answer) => answer?.status === status).length;
  const unknown = told.filter((answer) => answer === undefined || answer.status >= 500).length;
  const said = told.map((answer) => answer?.status ?? "no answer").join(", ");
  const [least, most] = effect === "once"
    ? [Math.min(acknowledged, 1), Math.min(acknowledged + unknown, 1)]
    : [acknowledged, acknowledged + unknown];
  assert.ok(
    least <= done && done <= most,
    `told ${said}; ${done} in the database, ${least} to ${most} expected`,
  );
}
