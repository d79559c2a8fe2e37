/** The limiter in memory: generous to everybody, no memory of anybody, and nothing that a request would notice. */

import assert from "node:assert/strict";
import fc from "npm:fast-check@4.10.2";
import {
  chargeTokens,
  createBuckets,
  createMarks,
  isMarked,
  mark,
  takeTokens,
} from "../../supabase/functions/_shared/domain/token_buckets.ts";

const NOW = 1_000_000;

Deno.test("a quiet caller may send a burst, then so many a second, and is told how long to wait", () => {
  const buckets = createBuckets(10, 40, 7);
  for (let i = 0; i < 40; i++) assert.equal(takeTokens(buckets, "a", NOW), 0);
  assert.equal(takeTokens(buckets, "a", NOW), 0.1);
  for (let i = 0; i < 10; i++) assert.equal(takeTokens(buckets, "a", NOW + 1000), 0);
  assert.ok(takeTokens(buckets, "a", NOW + 1000) > 0);
  assert.equal(takeTokens(buckets, "b", NOW + 1000), 0, "another caller has a bucket of their own");
});

Deno.test("waiting as long as one is told is always enough, and nobody gets more than rate and burst", () => {
  const step = fc.record({
    pauseMs: fc.integer({ min: 0, max: 400 }),
    cost: fc.integer({ min: 1, max: 10 }),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200 }), fc.integer(), (steps, seed) => {
      const buckets = createBuckets(10, 40, seed);
      let [now, taken] = [NOW, 0];
      for (const { pauseMs, cost } of steps) {
        now += pauseMs;
        const seconds = takeTokens(buckets, "caller", now, cost);
        if (seconds === 0) taken += cost;
        else {
          now += seconds * 1000 + 1e-3;
          assert.equal(takeTokens(buckets, "caller", now, cost), 0);
          taken += cost;
        }
        assert.ok(taken <= 40 + (now - NOW) / 1000 * 10 + 1e-6);
      }
    }),
  );
});

Deno.test("refusals cost more, but a debt is never larger than a burst; a clock that goes back gives nothing", () => {
  const buckets = createBuckets(10, 40, 7);
  for (let i = 0; i < 1000; i++) chargeTokens(buckets, "a", NOW, 10);
  assert.ok(takeTokens(buckets, "a", NOW) <= 4.1);
  assert.equal(takeTokens(buckets, "a", NOW + 4_200), 0);
  assert.ok(takeTokens(buckets, "a", NOW - 1_000_000, 30) > 0);
});

Deno.test("a million callers take no more memory than one, and almost none shares a bucket", () => {
  const buckets = createBuckets(5000, 20_000, 12345);
  const bytes = buckets.levels.byteLength + buckets.seenMs.byteLength;
  for (let i = 0; i < 1_000_000; i++) takeTokens(buckets, `Bearer sov_proj_${i}`, NOW);
  assert.equal(buckets.levels.byteLength + buckets.seenMs.byteLength, bytes);
  assert.ok(bytes <= 512 * 1024);
  const fullest = Math.min(...buckets.levels);
  // 61 callers share each of 16,384 buckets: a hash that spreads well leaves no bucket with three times as many.
  assert.ok(20_000 - fullest < 183, `one bucket served ${20_000 - fullest}`);
});

Deno.test("callers who differ in one character have different buckets, whatever the seed", () => {
  for (const seed of [0, 1, -1, 0xffffffff]) {
    const buckets = createBuckets(1, 1, seed);
    const slots = new Set<number>();
    for (const digit of "0123456789abcdef") {
      const before = Float64Array.from(buckets.levels);
      takeTokens(buckets, `Bearer sov_proj_00000000-0000-4000-8000-00000000000${digit}`, NOW);
      slots.add(buckets.levels.findIndex((level, i) => level !== before[i]));
    }
    assert.ok(slots.size >= 15, `${slots.size} of 16`);
  }
});

Deno.test("a mark is remembered for as long as one asks, and nobody else has it", () => {
  const marks = createMarks(7);
  assert.ok(!isMarked(marks, "a", 0, 1_000));
  mark(marks, "a", NOW);
  assert.ok(isMarked(marks, "a", NOW + 1_000, 1_000));
  assert.ok(!isMarked(marks, "a", NOW + 1_001, 1_000));
  const strangers = Array.from({ length: 10_000 }, (_, i) => isMarked(marks, `stranger ${i}`, NOW, 1_000));
  assert.ok(strangers.filter(Boolean).length < 10);
});

Deno.test("taking a token is done in microseconds", () => {
  const buckets = createBuckets(5000, 20_000, 99);
  const keys = Array.from(
    { length: 1000 },
    () => `Bearer sov_live_${crypto.randomUUID()}${crypto.randomUUID()}`,
  );
  const rounds = Array.from({ length: 9 }, () => {
    const start = performance.now();
    for (let i = 0; i < 20_000; i++) takeTokens(buckets, keys[i % 1000]!, NOW + i);
    return (performance.now() - start) / 20_000 * 1000;
  });
  const best = Math.min(...rounds);
  assert.ok(best < 5, `${best.toFixed(2)} µs each`);
});
