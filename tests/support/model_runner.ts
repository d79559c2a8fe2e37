/** Random programs against the service and against plain data that says what each step must answer. One runner for all. */

import assert from "node:assert/strict";
import fc from "npm:fast-check@4.10.2";
import type { Answer } from "./harness.ts";

/** What is to be answered: the status, and the code of a refusal. */
export interface Expected {
  status: number;
  error?: string | undefined;
}

/** One kind of thing, as the service has it and as plain data. */
export interface Modelled<Model extends object, Real extends object, Action> {
  action: fc.Arbitrary<Action>;
  /** Makes a new one, in the service and as data. */
  setUp(): Promise<{ model: Model; real: Real }>;
  /** Sends the request of an action, by what its author believes. */
  perform(real: Real, model: Model, action: Action): Promise<Answer>;
  /** Does the action to the data where the service must, and returns what it must answer. */
  apply(model: Model, action: Action): Expected;
  /** Looks closer at the answer of a single action, which the data have seen already. */
  inspect?(real: Real, model: Model, action: Action, answer: Answer): void | Promise<void>;
  /**
   * After several actions at once, of which nobody knows who was first: takes from the service what it must. Without it
   * there is one action at a time.
   */
  merge?(real: Real, model: Model, done: { action: Action; answer: Answer }[]): Promise<void>;
  /** What must hold in the end. */
  assertKept(real: Real, model: Model): Promise<void>;
}

/** How much is tried. */
export interface Extent {
  runs: number;
  stepsMax: number;
  atOnceMax?: number;
}

/** Runs random programs: most steps are one action, some are several at once. Returns how many actions there were. */
export async function checkModel<Model extends object, Real extends object, Action>(
  modelled: Modelled<Model, Real, Action>,
  { runs, stepsMax, atOnceMax = 2 }: Extent,
): Promise<number> {
  let actions = 0;
  const { action } = modelled;
  const step = (does: Action[]) => new Step(modelled, does, () => actions += does.length);
  const alone = action.map((only) => step([only]));
  const together = fc.array(action, { minLength: 2, maxLength: atOnceMax }).map(step);
  const steps = modelled.merge === undefined ? [alone] : [alone, alone, together];
  const programs = fc.commands(steps, { maxCommands: stepsMax, size: "max" });
  await fc.assert(
    fc.asyncProperty(programs, async (program) => {
      const made = await modelled.setUp();
      await fc.asyncModelRun(() => made, program);
      await modelled.assertKept(made.real, made.model);
    }),
    { numRuns: runs },
  );
  return actions;
}

class Step<Model extends object, Real extends object, Action> implements fc.AsyncCommand<Model, Real> {
  constructor(
    private readonly modelled: Modelled<Model, Real, Action>,
    private readonly actions: Action[],
    private readonly count: () => void,
  ) {}

  check(): boolean {
    return true;
  }

  async run(model: Model, real: Real): Promise<void> {
    this.count();
    const { perform, apply, inspect, merge } = this.modelled;
    const [only] = this.actions as [Action];
    if (this.actions.length === 1) {
      const answer = await perform(real, model, only);
      const { status, error } = apply(model, only);
      assert.deepEqual([answer.status, answer.body?.error], [status, error], answer.text);
      await inspect?.(real, model, only, answer);
      return;
    }
    const before = structuredClone(model);
    const answers = await Promise.all(this.actions.map((each) => perform(real, before, each)));
    for (const answer of answers) assert.ok(answer.status < 500 || answer.status === 503, answer.text);
    await merge!(real, model, this.actions.map((action, i) => ({ action, answer: answers[i]! })));
  }

  toString(): string {
    return `${this.actions.length > 1 ? "at once: " : ""}${JSON.stringify(this.actions)}`;
  }
}
