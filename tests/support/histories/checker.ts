/**
 * Linearizability: whether what concurrent clients were told can be explained by the operations having happened one
 * after another, each at some moment between its call and its return.
 *
 * The search of Wing and Gong, with Lowe's memory of states that led nowhere. An operation whose outcome its client never
 * learned may have happened at any time after its call, or never.
 */

/** One operation of a history. Times come from one clock. */
export interface Event<Input, Output> {
  client: number;
  input: Input;
  /** What the client was told; undefined when it never learned what became of it. */
  output: Output | undefined;
  called: number;
  /** When it was told; of no meaning without an output. */
  returned: number;
}

/** A sequential machine. States are values: a step returns a new one. */
export interface Model<State, Input, Output> {
  initial: State;
  /** The state after the operation, or undefined when it could not have been answered like that there. */
  step(state: State, input: Input, output: Output): State | undefined;
  /** Every state that the operation may leave when nobody knows what became of it, other than the present one. */
  unknown(state: State, input: Input): State[];
  /** States with equal keys are equal. */
  key(state: State): string;
}

/** The verdict. `refused` names an operation that no order explains, when all before it could be. */
export type Verdict<Input, Output> =
  | { linearizable: true; states: number }
  | { linearizable: false; states: number; refused: Event<Input, Output> };

/** More than this and the history was too long to be judged: that is an error of the test, never a verdict. */
const STATES_MAX = 2_000_000;

/** Judges a history. Throws when it cannot be judged in reasonable time. */
export function checkHistory<State, Input, Output>(
  model: Model<State, Input, Output>,
  history: readonly Event<Input, Output>[],
): Verdict<Input, Output> {
  const events = [...history].sort((a, b) => a.called - b.called);
  const ends = events.map((event) => event.output === undefined ? Infinity : event.returned);
  const known = events.map((event) => event.output !== undefined);
  const failed = new Set<string>();
  let states = 0;
  let furthest = -1;
  let refused = events[0];

  /** Whether the operations that are left can be put in order from here. */
  function explain(done: Uint8Array, state: State): boolean {
    let left = false;
    let earliest = Infinity;
    let firstOpen = -1;
    let count = 0;
    for (let i = 0; i < events.length; i++) {
      if (done[i] === 1) {
        count++;
        continue;
      }
      if (!known[i]) continue;
      left = true;
      if (ends[i]! < earliest) {
        earliest = ends[i]!;
        firstOpen = i;
      }
    }
    if (!left) return true;
    if (count > furthest) {
      furthest = count;
      refused = events[firstOpen]!;
    }
    const place = `${done.join("")}|${model.key(state)}`;
    if (failed.has(place)) return false;
    if (++states > STATES_MAX) {
      throw new Error(`A history of ${events.length} operations is too long to judge`);
    }
    // Whatever comes next was called before the first of those that are left returned. What is known goes first.
    for (const wanted of [true, false]) {
      for (let i = 0; i < events.length && events[i]!.called <= earliest; i++) {
        if (done[i] === 1 || known[i] !== wanted) continue;
        for (const next of successors(events[i]!, state)) {
          done[i] = 1;
          if (explain(done, next)) return true;
          done[i] = 0;
        }
      }
    }
    failed.add(place);
    return false;
  }

  function successors({ input, output }: Event<Input, Output>, state: State): State[] {
    if (output === undefined) return model.unknown(state, input);
    const next = model.step(state, input, output);
    return next === undefined ? [] : [next];
  }

  if (explain(new Uint8Array(events.length), model.initial)) return { linearizable: true, states };
  return { linearizable: false, states, refused: refused! };
}
