/** The session behaves as the SDK's own memory session does, also under its runner, and outlives the process. */

import assert from "node:assert/strict";
import { Agent, MemorySession, Runner } from "@openai/agents-core";
import { createMemoryStore, generateKey, Replicator } from "v2-agent-state-client";
import { AgentStateSession } from "v2-agent-state-client/openai-agents";

const account = {
  baseUrl: process.env.AGENT_STATE_URL,
  token: `sov_proj_${crypto.randomUUID()}`,
  key: generateKey(),
};
const openLog = () => Replicator.open({ ...account, store: createMemoryStore() });

const user = (content) => ({ role: "user", content });
const calls = [
  ["addItems", [user("a"), user("b")]],
  ["getItems"],
  ["addItems", []],
  ["addItems", [{ type: "function_call", callId: "1", name: "f", arguments: "{}", status: "completed" }]],
  ["getItems", 2],
  ["getItems", 0],
  ["popItem"],
  ["getItems"],
  ["clearSession"],
  ["getItems"],
  ["popItem"],
  ["addItems", [user("ü 🦉")]],
];
const [ours, theirs] = [
  new AgentStateSession({ log: await openLog(), sessionId: "s" }),
  new MemorySession({ sessionId: "s" }),
];
for (const [method, ...args] of calls) {
  assert.deepEqual(await ours[method](...args), await theirs[method](...args), method);
}
assert.equal(await ours.getSessionId(), "s");

const again = new AgentStateSession({ log: await openLog(), sessionId: "s" });
assert.deepEqual(await again.getItems(), await theirs.getItems());
await again.addItems([user("from another process")]);
assert.equal((await ours.getItems()).length, 2);
assert.deepEqual(await new AgentStateSession({ log: await openLog() }).getItems(), []);

/** Answers with how many items it was given. */
const model = {
  async getResponse({ input }) {
    const text = `${input.length} items`;
    const message = {
      type: "message",
      role: "assistant",
      status: "completed",
      content: [{ type: "output_text", text }],
    };
    return {
      usage: { add() {}, inputTokens: 0, outputTokens: 0, totalTokens: 0, requests: 1 },
      output: [message],
    };
  },
  getStreamedResponse() {
    throw new Error("Not asked for");
  },
};
const runner = new Runner({ tracingDisabled: true });
const agent = new Agent({ name: "counter", model });
const session = () => openLog().then((log) => new AgentStateSession({ log, sessionId: "run" }));
assert.equal((await runner.run(agent, "first", { session: await session() })).finalOutput, "1 items");
assert.equal((await runner.run(agent, "second", { session: await session() })).finalOutput, "3 items");
process.stdout.write("session: ok\n");
