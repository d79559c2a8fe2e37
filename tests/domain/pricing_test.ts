/** The price: 0.045 milli-cents a byte, rounded up once, and exact where floating point would not be. */

import assert from "node:assert/strict";
import fc from "npm:fast-check@4.10.2";
import { priceMilli } from "../../supabase/functions/v2-agent-state/domain/pricing.ts";

const SNAPSHOT_BYTES_MAX = 262_144;

/** The formula of `app.price_milli`, in integers. */
function integerPrice(bytes: number): number {
  return Number((BigInt(bytes) * 45n + 999n) / 1000n);
}

Deno.test("every size of a snapshot costs ceil(bytes × 0.045), as the database reckons it", () => {
  for (let bytes = 1; bytes <= SNAPSHOT_BYTES_MAX; bytes++) {
    const price = priceMilli(bytes);
    // A product of 0.045 has three decimals; what follows them is an artefact of binary fractions.
    if (price !== integerPrice(bytes) || price !== Math.ceil(Number((bytes * 0.045).toFixed(3)))) {
      assert.fail(`${bytes} bytes: ${price} instead of ${integerPrice(bytes)}`);
    }
  }
});

Deno.test("larger requests cost what the integer formula says", () => {
  fc.assert(fc.property(fc.integer({ min: 1, max: 1_000 * SNAPSHOT_BYTES_MAX }), (bytes) => {
    assert.equal(priceMilli(bytes), integerPrice(bytes));
  }));
});

const PRICES: [bytes: number, milli: number][] = [
  [1, 1],
  [22, 1],
  [23, 2],
  [200, 9],
  [201, 10],
  [1_000, 45],
  [4_096, 185],
  [65_536, 2_950],
  [262_144, 11_797],
];

Deno.test("sizes at the edges cost what they should", () => {
  for (const [bytes, milli] of PRICES) assert.equal(priceMilli(bytes), milli, `${bytes} bytes`);
});

Deno.test("rounding up costs less than one milli-cent, and more bytes never cost less", () => {
  fc.assert(fc.property(fc.integer({ min: 1, max: 8_000_000 }), (bytes) => {
    const excess = priceMilli(bytes) * 1000 - bytes * 45;
    assert.ok(excess >= 0 && excess < 1000);
    assert.ok(priceMilli(bytes + 1) >= priceMilli(bytes));
  }));
});
