/** Measures things side by side: rounds of each in turn, so that a machine that slows down slows all of them. */

/** Does one operation; a side has one for each connection. */
export type Work = () => Promise<unknown>;

/** What one side did: operations a second in each round, and milliseconds of each operation. */
export interface Side {
  rates: number[];
  times: number[];
}

/** How long to measure. */
export interface Rounds {
  rounds: number;
  ms: number;
}

/** One line of the table: a figure as a ratio to its baseline in the same run. */
export interface Row {
  what: string;
  baseline: string;
  /** Operations a second, or milliseconds, as `unit` says. */
  unit: string;
  ours: number;
  theirs: number;
  ratio: number;
  /** The ratio asked for, as text: `≥ 0.40`. */
  target: string;
}

/** Runs all sides in turn. Before the first round each runs a little, so that nothing is cold. */
export async function interleave<Name extends string>(
  sides: Record<Name, readonly Work[]>,
  { rounds, ms }: Rounds,
): Promise<Record<Name, Side>> {
  const names = Object.keys(sides) as Name[];
  const results = Object.fromEntries(
    names.map((name) => [name, { rates: [], times: [] }]),
  ) as unknown as Record<
    Name,
    Side
  >;
  for (const name of names) await runRound(sides[name], ms / 3, []);
  for (let round = 0; round < rounds; round++) {
    for (const name of names) {
      results[name].rates.push(await runRound(sides[name], ms, results[name].times));
    }
  }
  return results;
}

async function runRound(workers: readonly Work[], ms: number, times: number[]): Promise<number> {
  const start = performance.now();
  let count = 0;
  await Promise.all(workers.map(async (work) => {
    for (let before = performance.now(); before - start < ms;) {
      await work();
      const after = performance.now();
      times.push(after - before);
      before = after;
      count++;
    }
  }));
  return count / (performance.now() - start) * 1000;
}

/** Milliseconds of each of `count` runs, the sides in turn. */
export async function timeInTurn<Name extends string>(
  sides: Record<Name, Work>,
  count: number,
): Promise<Record<Name, number[]>> {
  const names = Object.keys(sides) as Name[];
  const times = Object.fromEntries(names.map((name) => [name, []])) as unknown as Record<Name, number[]>;
  for (const name of names) await sides[name]();
  for (let i = 0; i < count; i++) {
    for (const name of names) {
      const start = performance.now();
      await sides[name]();
      times[name].push(performance.now() - start);
    }
  }
  return times;
}

/** A row of rates; the ratio is the median of the rounds' own ratios. */
export function rateRow(what: string, baseline: string, ours: Side, theirs: Side, target: string): Row {
  const ratio = median(ours.rates.map((rate, i) => rate / theirs.rates[i]!));
  return {
    what,
    baseline,
    unit: "/s",
    ours: median(ours.rates),
    theirs: median(theirs.rates),
    ratio,
    target,
  };
}

/** A row of milliseconds. */
export function timeRow(what: string, baseline: string, ours: number, theirs: number, target: string): Row {
  return { what, baseline, unit: "ms", ours, theirs, ratio: ours / theirs, target };
}

/** Whether a ratio is what was asked for; null where nothing was. */
export function isMet({ ratio, target }: Row): boolean | null {
  const [, sign, bound] = /^([≥≤]) ([0-9.]+)/.exec(target) ?? [];
  if (bound === undefined) return null;
  return sign === "≥" ? ratio >= Number(bound) : ratio <= Number(bound);
}

export function median(values: readonly number[]): number {
  return quantile(values, 0.5);
}

export function quantile(values: readonly number[], part: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(Math.floor(sorted.length * part), sorted.length - 1)]!;
}
