/**
 * Token buckets for any number of callers in a fixed piece of memory, at well under a microsecond a request.
 *
 * A caller's bucket is found by a hash, so two callers may share one; with thousands of buckets, each of them generous,
 * that is rare and does no harm. The seed keeps anybody from choosing whom they share with.
 */

/** Characters of a key that are hashed: its end, where tokens differ. */
const KEY_LENGTH = 64;

/** How full the buckets are, and when each was last looked at. */
export interface TokenBuckets {
  perSecond: number;
  burst: number;
  seed: number;
  levels: Float64Array;
  seenMs: Float64Array;
}

/** Makes `count` full buckets (a power of two). `seed` is any 32-bit number. */
export function createBuckets(perSecond: number, burst: number, seed: number, count = 16_384): TokenBuckets {
  return {
    perSecond,
    burst,
    seed,
    levels: new Float64Array(count).fill(burst),
    seenMs: new Float64Array(count),
  };
}

/**
 * Takes `cost` from the bucket of `key` at a moment (milliseconds of any clock that only goes forward). Returns 0, or
 * the seconds until there is enough: then nothing was taken.
 */
export function takeTokens(buckets: TokenBuckets, key: string, nowMs: number, cost = 1): number {
  const slot = refill(buckets, key, nowMs);
  const level = buckets.levels[slot]!;
  if (level < cost) return (cost - level) / buckets.perSecond;
  buckets.levels[slot] = level - cost;
  return 0;
}

/** Takes `cost` even if that is more than there is; a bucket never owes more than it can hold. */
export function chargeTokens(buckets: TokenBuckets, key: string, nowMs: number, cost: number): void {
  const slot = refill(buckets, key, nowMs);
  buckets.levels[slot] = Math.max(buckets.levels[slot]! - cost, -buckets.burst);
}

/** When keys were last marked: found by a hash too, in as little memory. */
export interface Marks {
  seed: number;
  seenMs: Float64Array;
}

/** Makes room for `count` marks (a power of two); a key shares its place with few others. */
export function createMarks(seed: number, count = 16_384): Marks {
  return { seed, seenMs: new Float64Array(count).fill(-Infinity) };
}

/** Marks a key at a moment. */
export function mark({ seed, seenMs }: Marks, key: string, nowMs: number): void {
  seenMs[hash(key, seed) & (seenMs.length - 1)] = nowMs;
}

/** Whether a key was marked within the last `withinMs`. */
export function isMarked({ seed, seenMs }: Marks, key: string, nowMs: number, withinMs: number): boolean {
  return nowMs - seenMs[hash(key, seed) & (seenMs.length - 1)]! <= withinMs;
}

function refill(buckets: TokenBuckets, key: string, nowMs: number): number {
  const { levels, seenMs, perSecond, burst } = buckets;
  const slot = hash(key, buckets.seed) & (levels.length - 1);
  const passedMs = Math.max(nowMs - seenMs[slot]!, 0);
  levels[slot] = Math.min(levels[slot]! + passedMs / 1000 * perSecond, burst);
  seenMs[slot] = nowMs;
  return slot;
}

/** FNV-1a, with a last stir so that the low bits depend on all of it. */
function hash(key: string, seed: number): number {
  let value = (0x811c9dc5 ^ seed) >>> 0;
  for (let i = Math.max(key.length - KEY_LENGTH, 0); i < key.length; i++) {
    value = Math.imul(value ^ key.charCodeAt(i), 0x01000193);
  }
  value = Math.imul(value ^ (value >>> 15), 0x2c1b3c6d);
  return (value ^ (value >>> 13)) >>> 0;
}
