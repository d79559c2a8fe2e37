/** The checker itself: it accepts every history that a right service can leave, and refuses every one that it cannot. */

import assert from "node:assert/strict";
import fc from "npm:fast-check@4.10.2";
import { openClaim } from "../support/claims.ts";
import { checkHistory, type Event, type Model } from "../support/histories/checker.ts";
import {
  accepted,
  append,
  at,
  BAD_LOGS,
  BAD_SNAPSHOTS,
  blocks,
  gap,
  GOOD_LOGS,
  GOOD_SNAPSHOTS,
  idempotent,
  type Log,
  replay,
  split,
} from "../support/histories/examples.ts";
import { type LogInput, type LogOutput, REPLICATION } from "../support/histories/replication.ts";
import { SNAPSHOTS } from "../support/histories/snapshots.ts";

const held = openClaim("The linearizability checker tells right histories from wrong ones");

function define<State, Input, Output>(
  what: string,
  model: Model<State, Input, Output>,
  good: Record<string, Event<Input, Output>[]>,
  bad: Record<string, Event<Input, Output>[]>,
): void {
  for (const [name, history] of Object.entries(good)) {
    Deno.test(`${what}: the checker accepts ${name}`, () => {
      assert.equal(checkHistory(model, history).linearizable, true);
    });
  }
  for (const [name, history] of Object.entries(bad)) {
    Deno.test(`${what}: the checker refuses ${name}`, () => {
      assert.equal(checkHistory(model, history).linearizable, false);
    });
  }
}

define("snapshots", SNAPSHOTS, GOOD_SNAPSHOTS, BAD_SNAPSHOTS);
define("replication", REPLICATION, GOOD_LOGS, BAD_LOGS);

/** Random programs, run one after another by the model itself, with the times stretched so that they overlap. */
const program = fc.array(
  fc.record({
    client: fc.nat(3),
    from: fc.nat(4),
    hashes: fc.array(fc.constantFrom("a", "b", "c"), { minLength: 1, maxLength: 3 }),
    reads: fc.boolean(),
    early: fc.double({ min: 0, max: 3, noNaN: true }),
    late: fc.double({ min: 0, max: 3, noNaN: true }),
    lost: fc.integer({ min: 0, max: 9 }).map((n) => n === 0),
  }),
  { minLength: 1, maxLength: 14 },
);

/** What a right service would have answered. */
function run(steps: typeof program extends fc.Arbitrary<infer T> ? T : never): Log {
  let log: readonly string[] = [];
  const history: Log = [];
  for (const [i, step] of steps.entries()) {
    const input: LogInput = step.reads
      ? replay(-1)
      : append(Math.min(step.from, log.length + 1), ...step.hashes);
    const output = answers(log, input).find((each) => REPLICATION.step(log, input, each) !== undefined)!;
    log = REPLICATION.step(log, input, output)!;
    history.push(
      at<LogInput, LogOutput>(
        i - step.early,
        i + step.late,
        input,
        step.lost && !step.reads ? undefined : output,
      ),
    );
  }
  return history;
}

/** Every answer that could be right. */
function answers(log: readonly string[], input: LogInput): LogOutput[] {
  if (input.kind !== "append") return [blocks(0, ...log)];
  const conflicts = input.hashes.flatMap((hash, i): [number, string][] => {
    const existing = log[input.from + i];
    return existing === undefined || existing === hash ? [] : [[input.from + i, existing]];
  });
  return [
    split(...conflicts),
    gap(log.length === 0 ? null : log.length - 1),
    ...input.hashes.map((_, i) =>
      accepted(i + 1, Math.max(log.length, input.from + input.hashes.length) - 1)
    ),
    idempotent,
  ];
}

Deno.test("the checker accepts what a right service answers, however its requests overlap", () => {
  fc.assert(
    fc.property(program, (steps) => {
      assert.equal(checkHistory(REPLICATION, run(steps)).linearizable, true);
    }),
    { numRuns: 300 },
  );
});

Deno.test("the checker refuses a right history in which one acknowledged append is forgotten", () => {
  let tried = 0;
  fc.assert(
    fc.property(program, (steps) => {
      const apart = run(steps.map((step) => ({ ...step, early: 0, late: 0.1, lost: false })));
      const appends = apart.filter(({ output }) => output?.kind === "accepted");
      if (appends.length === 0) return;
      const seen = at<LogInput, LogOutput>(100, 101, replay(-1), blocks(0, ...forget(apart)));
      assert.equal(checkHistory(REPLICATION, [...apart, seen]).linearizable, false);
      tried++;
    }),
    { numRuns: 1_000 },
  );
  assert.ok(tried > 200);
  const cases = [GOOD_SNAPSHOTS, BAD_SNAPSHOTS, GOOD_LOGS, BAD_LOGS].flatMap(Object.keys).length + 300 +
    tried;
  held(cases);
});

/** The blocks that were accepted, but for the last. */
function forget(history: Log): string[] {
  let log: readonly string[] = [];
  for (const { input, output } of history) log = REPLICATION.step(log, input, output!)!;
  return log.slice(0, -1);
}
