/** Whatever is sent to whichever operation: never a 500, and never an answer that the reference does not have. */

import assert from "node:assert/strict";
import { sendGenerated } from "../support/generated_requests.ts";
import { onOneBackend } from "../support/harness.ts";

/** Requests for each operation; GENERATED_REQUESTS asks for more of them. */
const COUNT = Number(Deno.env.get("GENERATED_REQUESTS") || 20);

onOneBackend((test) => {
  test(`${COUNT} generated requests to each operation are answered as the reference says`, async (world) => {
    const tallies = await sendGenerated(world, COUNT);
    for (const [operation, tally] of Object.entries(tallies)) {
      const good = Object.entries(tally).filter(([answer]) => /^2/.test(answer)).reduce(
        (sum, [, n]) => sum + n,
        0,
      );
      assert.ok(good > 0, `${operation}: no generated request got through: ${JSON.stringify(tally)}`);
    }
    if (Deno.env.has("GENERATED_REQUESTS")) Deno.stdout.writeSync(encode(tallies));
  });
});

function encode(tallies: object): Uint8Array {
  return new TextEncoder().encode(`${JSON.stringify(tallies, null, 1)}\n`);
}
