/** Names that resemble each other are names of different people and different agents: nothing is a pattern. Spec 5. */

import assert from "node:assert/strict";
import { newPaidKey, snapshotBody } from "../support/factories.ts";
import { onEveryBackend } from "../support/harness.ts";

/** Of each name, others that a pattern, a collation or a normal form would take for it. */
function resembling(name: string): string[] {
  return [
    name,
    name.toUpperCase(),
    `${name} `,
    name.replace(/.$/, "_"),
    name.replace(/.$/, "%"),
    "%",
    "_".repeat(name.length),
    `${name}\u00e9`,
    `${name}e\u0301`,
    `${name}\u200b`,
    name.replaceAll("a", "\u0430"),
  ];
}

onEveryBackend((test) => {
  test("people whose subjects resemble each other have accounts of their own", async (world) => {
    const subjects = resembling(`ada-${crypto.randomUUID()}`);
    for (const [i, subject] of subjects.entries()) {
      const token = await world.issuer.token(subject);
      const made = await world.request("POST", "/api-keys", { token, body: { name: `key ${i}` } });
      assert.equal(made.status, 201, made.text);
    }
    for (const [i, subject] of subjects.entries()) {
      const { body } = await world.request("GET", "/api-keys", { token: await world.issuer.token(subject) });
      assert.deepEqual(
        body.map(({ label }: { label: string }) => label),
        [`key ${i}`],
        JSON.stringify(subject),
      );
    }
  });

  test("agents whose names resemble each other have snapshots of their own", async (world) => {
    const { token } = await newPaidKey(world);
    const agents = resembling(`ada-${crypto.randomUUID()}`);
    for (const agent_id of agents) {
      const stored = await world.request("POST", "/snapshot", { token, body: snapshotBody({ agent_id }) });
      assert.equal(stored.status, 200, stored.text);
    }
    for (const agent_id of agents) {
      const { body } = await world.request("GET", `/snapshot/${encodeURIComponent(agent_id)}/latest`, {
        token,
      });
      assert.equal(body.receipt.agent_id, agent_id);
    }
  });
});
