/** The MCP server, as the SDK's own client sees it over stdio. */

import assert from "node:assert/strict";
import { mkdtemp, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const home = await mkdtemp(join(tmpdir(), "agent-state-mcp-"));
const main = new URL("../dist/adapters/mcp/main.js", import.meta.url).pathname;

async function connect(url = process.env.AGENT_STATE_URL) {
  const client = new Client({ name: "test", version: "1.0.0" });
  const env = { PATH: process.env.PATH, AGENT_STATE_HOME: home, AGENT_STATE_URL: url };
  await client.connect(new StdioClientTransport({ command: process.execPath, args: [main], env }));
  const call = async (name, args = {}) => {
    const { content, isError } = await client.callTool({ name, arguments: args });
    return { isError: isError === true, ...JSON.parse(content[0].text) };
  };
  return { client, call };
}

try {
  const [one, two] = [await connect(), await connect()];
  const { tools } = await one.client.listTools();
  assert.deepEqual(tools.map(({ name }) => name).sort(), [
    "checkpoint",
    "recall_recent",
    "restore",
    "store_memory",
  ]);
  assert.deepEqual(await one.call("recall_recent"), { isError: false, memories: [] });
  assert.equal((await one.call("restore")).state, null);

  // Two assistants on one machine write at once, and both remember everything.
  const stored = await Promise.all([
    one.call("store_memory", { text: "a" }),
    two.call("store_memory", { text: "b" }),
    one.call("store_memory", { text: "ü 🦉" }),
  ]);
  assert.ok(stored.every(({ sent }) => sent));
  for (const { call } of [one, two]) {
    const { memories } = await call("recall_recent", { limit: 10 });
    assert.deepEqual(memories.map(({ text }) => text).sort(), ["a", "b", "ü 🦉"]);
  }
  assert.equal((await one.call("recall_recent", { limit: 1 })).memories.length, 1);

  assert.equal((await one.call("checkpoint", { state: { step: 1 } })).sequence_number, 0);
  assert.equal((await two.call("checkpoint", { state: { step: 2 } })).sequence_number, 1);
  assert.deepEqual((await one.call("restore")).state, { step: 2 });
  assert.deepEqual((await one.call("restore", { sequence: 0 })).state, { step: 1 });
  const tooLarge = await one.call("store_memory", { text: "x".repeat(300_000) });
  assert.deepEqual([tooLarge.isError, tooLarge.error], [true, "chunk_too_large"]);
  assert.equal((await stat(join(home, "key"))).mode & 0o777, 0o600);
  await Promise.all([one.client.close(), two.client.close()]);
} finally {
  await rm(home, { recursive: true });
}
process.stdout.write("mcp: ok\n");
