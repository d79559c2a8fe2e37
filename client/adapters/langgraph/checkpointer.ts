/** A LangGraph.js checkpointer whose checkpoints are encrypted before they leave the process. */

import {
  BaseCheckpointSaver,
  type ChannelVersions,
  type Checkpoint,
  type CheckpointListOptions,
  type CheckpointMetadata,
  type CheckpointTuple,
  MemorySaver,
  type PendingWrite,
  type SerializerProtocol,
} from "@langchain/langgraph-checkpoint";
import type { RunnableConfig } from "@langchain/core/runnables";
import { decodeBase64, encodeBase64 } from "../../bytes.ts";
import type { Json } from "../../canonical_json.ts";
import { Journal } from "../../journal.ts";
import type { Replicator } from "../../replicator.ts";

/** A value as LangGraph's serializer spells it: its type, and its bytes in base64. */
type Serialized = [type: string, base64: string];

interface Place {
  thread_id?: string;
  checkpoint_ns?: string;
  checkpoint_id?: string;
}

/** What happens to the checkpoints, as it is in the log. */
type Change =
  | { op: "put"; at: Place; checkpoint: Serialized; metadata: Serialized }
  | { op: "writes"; at: Place; writes: [channel: string, value: Serialized][]; task: string }
  | { op: "delete"; thread: string };

/**
 * Keeps checkpoints in a replication log: `new AgentStateSaver(await Replicator.open({ … }))`. Several processes may share
 * the log. All checkpoints of the log are held in memory; give long-lived threads a token of their own.
 */
export class AgentStateSaver extends BaseCheckpointSaver {
  readonly #journal: Journal<MemorySaver>;

  constructor(log: Replicator, serde?: SerializerProtocol) {
    super(serde);
    this.#journal = new Journal({
      log,
      kind: "langgraph",
      create: () => new MemorySaver(this.serde),
      apply: (saver, change) => this.#apply(saver, change as unknown as Change),
    });
  }

  override async getTuple(config: RunnableConfig): Promise<CheckpointTuple | undefined> {
    return await (await this.#journal.read()).getTuple(config);
  }

  override async *list(
    config: RunnableConfig,
    options?: CheckpointListOptions,
  ): AsyncGenerator<CheckpointTuple> {
    yield* (await this.#journal.read()).list(config, options);
  }

  override async put(
    config: RunnableConfig,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    _versions: ChannelVersions,
  ): Promise<RunnableConfig> {
    const at = placeOf(config);
    if (at.thread_id === undefined) throw new Error('A checkpoint needs a "thread_id" in "configurable"');
    await this.#append({
      op: "put",
      at,
      checkpoint: await this.#dump(checkpoint),
      metadata: await this.#dump(metadata),
    });
    const { thread_id, checkpoint_ns = "" } = at;
    return { configurable: { thread_id, checkpoint_ns, checkpoint_id: checkpoint.id } };
  }

  override async putWrites(config: RunnableConfig, writes: PendingWrite[], task: string): Promise<void> {
    const at = placeOf(config);
    if (at.thread_id === undefined || at.checkpoint_id === undefined) {
      throw new Error('Writes need a "thread_id" and a "checkpoint_id" in "configurable"');
    }
    const dumped = writes.map(async ([channel, value]): Promise<[string, Serialized]> => {
      return [channel, await this.#dump(value)];
    });
    await this.#append({ op: "writes", at, writes: await Promise.all(dumped), task });
  }

  /** Hides a thread from all readers. The log keeps its ciphertext. */
  override async deleteThread(thread: string): Promise<void> {
    await this.#append({ op: "delete", thread });
  }

  async #append(change: Change): Promise<void> {
    await this.#journal.append(change as unknown as Json);
  }

  async #apply(saver: MemorySaver, change: Change): Promise<void> {
    if (change.op === "delete") return await saver.deleteThread(change.thread);
    const config = { configurable: { checkpoint_ns: "", ...change.at } };
    if (change.op === "put") {
      const { checkpoint, metadata } = change;
      await saver.put(config, await this.#load(checkpoint), await this.#load(metadata));
      return;
    }
    const loaded = change.writes.map(async ([channel, value]) => [channel, await this.#load(value)]);
    await saver.putWrites(config, await Promise.all(loaded) as PendingWrite[], change.task);
  }

  async #dump(value: unknown): Promise<Serialized> {
    const [type, bytes] = await this.serde.dumpsTyped(value);
    return [type, encodeBase64(bytes)];
  }

  // deno-lint-ignore no-explicit-any
  async #load([type, base64]: Serialized): Promise<any> {
    return await this.serde.loadsTyped(type, decodeBase64(base64));
  }
}

function placeOf({ configurable = {} }: RunnableConfig): Place {
  const { thread_id, checkpoint_ns, checkpoint_id } = configurable;
  return {
    ...(thread_id === undefined ? {} : { thread_id }),
    ...(checkpoint_ns === undefined ? {} : { checkpoint_ns }),
    ...(checkpoint_id === undefined ? {} : { checkpoint_id }),
  };
}
