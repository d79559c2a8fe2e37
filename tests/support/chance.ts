/** Chance that can be repeated: everything follows from a seed. */

/** A source of chance. */
export interface Chance {
  readonly seed: number;
  /** A whole number from 0 to below `end`; 0 when there is none. */
  below(end: number): number;
  /** True once in `n` times. */
  one(n: number): boolean;
  pick<T>(items: readonly T[]): T;
}

/** Makes a source (mulberry32). The same seed gives the same numbers. */
export function chanceOf(seed: number): Chance {
  let state = seed >>> 0;
  function next(): number {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }
  const below = (end: number) => Math.floor(next() * Math.max(end, 1));
  return { seed, below, one: (n) => below(n) === 0, pick: (items) => items[below(items.length)]! };
}

/** A seed of today, or the one that PROOF_SEED names. */
export function newSeed(): number {
  return Number(Deno.env.get("PROOF_SEED") ?? crypto.getRandomValues(new Uint32Array(1))[0]);
}
