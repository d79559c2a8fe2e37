/** Whatever is sent to whichever operation: never a 500, and never an answer that the reference does not have. */

import assert from "node:assert/strict";
import { openClaim, THOROUGH } from "../support/claims.ts";
import { sendGenerated, sendGeneratedToVault, type Tally } from "../support/generated_requests.ts";
import { onOneBackend } from "../support/harness.ts";

/** Requests for each operation; GENERATED_REQUESTS asks for another number of them, and prints what came of them. */
const COUNT = Number(Deno.env.get("GENERATED_REQUESTS") || (THOROUGH ? 500 : 20));

const held = openClaim("Whatever is generated from the reference is answered as the reference says");

onOneBackend((test) => {
  let sent = 0;

  for (const [name, send] of [["agent state", sendGenerated], ["vault", sendGeneratedToVault]] as const) {
    test(`${COUNT} generated requests to each operation are answered as the reference says: ${name}`, async (world) => {
      const tallies = await send(world, COUNT);
      for (const [operation, tally] of Object.entries(tallies)) {
        const good = total(tally, /^2/);
        assert.ok(good > 0, `${operation}: no generated request got through: ${JSON.stringify(tally)}`);
        assert.ok(total(tally, /./) >= COUNT, operation);
        sent += total(tally, /./);
      }
      if (Deno.env.has("GENERATED_REQUESTS")) Deno.stdout.writeSync(encode(tallies));
    });
  }

  test("every operation was sent as many as it was to be", async () => held(sent));
});

function total(tally: Tally, answers: RegExp): number {
  return Object.entries(tally).reduce((sum, [answer, n]) => answers.test(answer) ? sum + n : sum, 0);
}

function encode(tallies: object): Uint8Array {
  return new TextEncoder().encode(`${JSON.stringify(tallies, null, 1)}\n`);
}
