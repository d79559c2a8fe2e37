/**
 * An MCP server over stdio: an assistant's memory, encrypted before it leaves the machine. Token, key and outbox are those
 * of the `agent` command, in the same directory; several servers may run on it, each call takes its turn.
 */

import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { z } from "zod";
import type { MemoryRecord } from "../../block.ts";
import type { Json } from "../../canonical_json.ts";
import { type Home, withReplicator, withSnapshots } from "../../command/home.ts";
import { AgentStateError, isTransient, NotFoundError } from "../../errors.ts";
import type { Replicator } from "../../replicator.ts";
import { START } from "../../verify.ts";

const RECENT_MAX = 500;
const RECENT_DEFAULT = 20;

interface Remembered {
  id: string;
  text: string;
  timestamp: string;
}

/** The server, without a transport. `agent` names whose checkpoints these are. */
export function createMcpServer(home: Home, agent: string): McpServer {
  const server = new McpServer({ name: "agent-state", version: "1.0.0" });
  const recall = createRecall();

  server.registerTool("store_memory", {
    description: "Remember a text. It is encrypted on this machine and kept in order.",
    inputSchema: { text: z.string().min(1) },
  }, ({ text }) =>
    answer(() =>
      withReplicator(home, async (log) => {
        const record = { id: crypto.randomUUID(), text, timestamp: String(Date.now()) };
        await log.append([record]);
        // What is in the outbox is safe; it goes with the next call when the service is away.
        const sent = await log.flush().then(() => true, (error) => {
          if (!isTransient(error)) throw error;
          return false;
        });
        return { id: record.id, sent };
      })
    ));

  server.registerTool(
    "recall_recent",
    {
      description: "The newest memories, oldest first.",
      inputSchema: { limit: z.int().min(1).max(RECENT_MAX).default(RECENT_DEFAULT) },
      annotations: { readOnlyHint: true },
    },
    ({ limit }) =>
      answer(() =>
        withReplicator(
          home,
          async (log) => ({ memories: (await recall(log)).slice(-limit) as unknown as Json }),
        )
      ),
  );

  server.registerTool("checkpoint", {
    description: "Store the state of the work as a numbered checkpoint.",
    inputSchema: { state: z.json() },
  }, ({ state }) =>
    answer(() =>
      withSnapshots(home, agent, async (client) => {
        const { sequence_number } = await client.snapshot({ key: home.key, payload: state as Json });
        return { sequence_number };
      })
    ));

  server.registerTool("restore", {
    description: "The state of the latest checkpoint, or of the one with a number.",
    inputSchema: { sequence: z.int().min(0).optional() },
    annotations: { readOnlyHint: true },
  }, ({ sequence }) =>
    answer(() =>
      withSnapshots(home, agent, async (client) => {
        const { key } = home;
        const found =
          await (sequence === undefined ? client.restore({ key }) : client.restoreAt({ sequence, key }))
            .catch((error) => {
              if (error instanceof NotFoundError) return undefined;
              throw error;
            });
        if (found === undefined) return { sequence_number: null, state: null };
        return { sequence_number: found.receipt.sequence_number, state: found.payload };
      })
    ));

  return server;
}

/**
 * Reads on where it stopped, and keeps the newest texts. Entries of the other adapters are passed over. While the service
 * is away, what was read before is recalled, with what waits.
 */
function createRecall(): (log: Replicator) => Promise<Remembered[]> {
  let [cursor, wasRead] = [START, false];
  let recent: Remembered[] = [];
  const texts = (records: MemoryRecord[]) =>
    records.filter(({ kind }) => kind === undefined).map(({ id, text, timestamp }) => ({
      id,
      text,
      timestamp,
    }));
  return async function recall(log) {
    try {
      for await (const block of log.pull({ after: cursor })) {
        recent = [...recent, ...texts(block.records)].slice(-RECENT_MAX);
        cursor = { sequence: block.sequence, root: block.root };
      }
      wasRead = true;
    } catch (error) {
      if (!wasRead || !isTransient(error)) throw error;
    }
    return [...recent, ...texts(await log.pending())].slice(-RECENT_MAX);
  };
}

/** A tool's answer as JSON in text; errors are told to the model, which can act on their code. */
async function answer(work: () => Promise<Json>) {
  try {
    return { content: [{ type: "text" as const, text: JSON.stringify(await work()) }] };
  } catch (error) {
    const code = error instanceof AgentStateError ? error.code : "failed";
    const message = error instanceof Error ? error.message : String(error);
    const text = JSON.stringify({ error: code, message });
    return { isError: true, content: [{ type: "text" as const, text }] };
  }
}
