/** Whatever is sent to whichever operation: never a 500, and never an answer that the reference does not have. */

import assert from "node:assert/strict";
import { AGENT_STATE } from "../support/agent_state_cast.ts";
import { openClaim, THOROUGH } from "../support/claims.ts";
import { sendGenerated, type Tally } from "../support/generated_requests.ts";
import { onOneBackend, type World } from "../support/harness.ts";
import type { Stage } from "../support/reference_service.ts";
import { VAULT } from "../support/vault_cast.ts";

/** Requests for each operation; GENERATED_REQUESTS asks for another number of them, and prints what came of them. */
const COUNT = Number(Deno.env.get("GENERATED_REQUESTS") || (THOROUGH ? 500 : 20));

const held = openClaim("Whatever is generated from the reference is answered as the reference says");

onOneBackend((test) => {
  let sent = 0;

  test(`${COUNT} generated requests to each operation are answered as the reference says: agent state`, async (world) => {
    sent += await sendAll(AGENT_STATE, world);
  });

  test(`${COUNT} generated requests to each operation are answered as the reference says: vault`, async (world) => {
    sent += await sendAll(VAULT, world);
  });

  test("every operation was sent as many as it was to be", async () => held(sent));
});

/** Returns how many were sent. */
async function sendAll<Scene>(stage: Stage<Scene>, world: World): Promise<number> {
  const tallies = await sendGenerated(stage, world, COUNT);
  let sent = 0;
  for (const [operation, tally] of Object.entries(tallies)) {
    const good = total(tally, /^2/);
    assert.ok(good > 0, `${operation}: no generated request got through: ${JSON.stringify(tally)}`);
    assert.ok(total(tally, /./) >= COUNT, operation);
    sent += total(tally, /./);
  }
  if (Deno.env.has("GENERATED_REQUESTS")) Deno.stdout.writeSync(encode(tallies));
  return sent;
}

function total(tally: Tally, answers: RegExp): number {
  return Object.entries(tally).reduce((sum, [answer, n]) => answers.test(answer) ? sum + n : sum, 0);
}

function encode(tallies: object): Uint8Array {
  return new TextEncoder().encode(`${JSON.stringify(tallies, null, 1)}\n`);
}
