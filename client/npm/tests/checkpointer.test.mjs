/** LangGraph's published conformance suite, with its optional part, on the checkpointer and a real service. */

import { deltaChannelHistoryTests, specTest } from "@langchain/langgraph-checkpoint-validation";
import { emptyCheckpoint, uuid6 } from "@langchain/langgraph-checkpoint";
import { createMemoryStore, generateKey, Replicator } from "v2-agent-state-client";
import { AgentStateSaver } from "v2-agent-state-client/langgraph";
import { expect, test } from "vitest";

const baseUrl = process.env.AGENT_STATE_URL;

function newAccount() {
  return { baseUrl, token: `sov_proj_${crypto.randomUUID()}`, key: generateKey() };
}

async function openSaver(account) {
  return new AgentStateSaver(await Replicator.open({ ...account, store: createMemoryStore() }));
}

const initializer = {
  checkpointerName: "AgentStateSaver",
  createCheckpointer: () => openSaver(newAccount()),
};
specTest(initializer);
deltaChannelHistoryTests(initializer);

test("another process goes on where one stopped, with checkpoints larger than a block", async () => {
  const account = newAccount();
  const config = { configurable: { thread_id: "t", checkpoint_ns: "" } };
  const large = "ü".repeat(300_000);
  const checkpoint = {
    ...emptyCheckpoint(),
    id: uuid6(0),
    channel_values: { large },
    channel_versions: { large: 1 },
  };
  const metadata = { source: "loop", step: 0, parents: {} };
  const first = await openSaver(account);
  const saved = await first.put(config, checkpoint, metadata, { large: 1 });
  await first.putWrites(saved, [["large", { more: 1 }]], "task");

  const second = await openSaver(account);
  const found = await second.getTuple(config);
  expect(found.checkpoint.channel_values.large === large).toBe(true);
  expect(found.pendingWrites).toEqual([["task", "large", { more: 1 }]]);
  await second.deleteThread("t");
  expect(await first.getTuple(config)).toBeUndefined();
});
