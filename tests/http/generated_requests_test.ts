/** Whatever is sent to whichever operation: never a 500, and never an answer that the reference does not have. */

import assert from "node:assert/strict";
import { AGENT_STATE } from "../support/agent_state_cast.ts";
import { sendGenerated } from "../support/generated_requests.ts";
import { onOneBackend, type World } from "../support/harness.ts";
import type { Stage } from "../support/reference_service.ts";
import { VAULT } from "../support/vault_cast.ts";

/** Requests for each operation; GENERATED_REQUESTS asks for more of them. */
const COUNT = Number(Deno.env.get("GENERATED_REQUESTS") || 20);

onOneBackend((test) => {
  test(`${COUNT} generated requests to each operation are answered as the reference says`, (world) =>
    sendAll(AGENT_STATE, world));
  test(`${COUNT} generated requests to each operation of the vault are answered as its reference says`, (world) =>
    sendAll(VAULT, world));
});

async function sendAll<Scene>(stage: Stage<Scene>, world: World): Promise<void> {
  const tallies = await sendGenerated(stage, world, COUNT);
  for (const [operation, tally] of Object.entries(tallies)) {
    const good = Object.entries(tally).filter(([answer]) => /^2/.test(answer)).reduce(
      (sum, [, n]) => sum + n,
      0,
    );
    assert.ok(good > 0, `${operation}: no generated request got through: ${JSON.stringify(tally)}`);
  }
  if (Deno.env.has("GENERATED_REQUESTS")) Deno.stdout.writeSync(encode(tallies));
}

function encode(tallies: object): Uint8Array {
  return new TextEncoder().encode(`${JSON.stringify(tallies, null, 1)}\n`);
}
