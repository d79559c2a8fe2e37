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

/** A channel's value, written when its version changed. */
type Channel = [channel: string, version: string | number, value: Serialized];

/** What happens to the checkpoints, as it is in the log. A checkpoint has only the channels that changed. */
type Change =
  | { op: "put"; at: Place; checkpoint: Serialized; channels: Channel[]; metadata: Serialized }
  | { op: "writes"; at: Place; writes: [channel: string, value: Serialized][]; task: string }
  | { op: "delete"; thread: string };

/** Every checkpoint, whole, and the values of channels by thread and then by namespace, name and version. */
interface State {
  saver: MemorySaver;
  channels: Map<string, Map<string, Serialized>>;
}

/**
 * Keeps checkpoints in a replication log: `new AgentStateSaver(await Replicator.open({ … }))`. Several processes may share
 * the log. All checkpoints of the log are held in memory; give long-lived threads a token of their own.
 */
export class AgentStateSaver extends BaseCheckpointSaver {
  readonly #journal: Journal<State>;

  constructor(log: Replicator, serde?: SerializerProtocol) {
    super(serde);
    this.#journal = new Journal({
      log,
      kind: "langgraph",
      create: () => ({ saver: new MemorySaver(this.serde), channels: new Map() }),
      apply: (state, change) => this.#apply(state, change as unknown as Change),
    });
  }

  override async getTuple(config: RunnableConfig): Promise<CheckpointTuple | undefined> {
    return await (await this.#journal.read()).saver.getTuple(config);
  }

  override async *list(
    config: RunnableConfig,
    options?: CheckpointListOptions,
  ): AsyncGenerator<CheckpointTuple> {
    yield* (await this.#journal.read()).saver.list(config, options);
  }

  override async put(
    config: RunnableConfig,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    versions: ChannelVersions,
  ): Promise<RunnableConfig> {
    const at = placeOf(config);
    if (at.thread_id === undefined) throw new Error('A checkpoint needs a "thread_id" in "configurable"');
    const { channel_values, ...rest } = checkpoint;
    const changed = Object.entries(versions).filter(([channel]) => Object.hasOwn(channel_values, channel));
    const channels = changed.map(async ([channel, version]): Promise<Channel> => {
      return [channel, version, await this.#dump(channel_values[channel])];
    });
    await this.#append({
      op: "put",
      at,
      checkpoint: await this.#dump(rest),
      channels: await Promise.all(channels),
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

  async #apply({ saver, channels }: State, change: Change): Promise<void> {
    if (change.op === "delete") {
      channels.delete(change.thread);
      return await saver.deleteThread(change.thread);
    }
    const config = { configurable: { checkpoint_ns: "", ...change.at } };
    if (change.op === "writes") {
      const loaded = change.writes.map(async ([channel, value]) => [channel, await this.#load(value)]);
      await saver.putWrites(config, await Promise.all(loaded) as PendingWrite[], change.task);
      return;
    }
    const { thread_id, checkpoint_ns } = config.configurable;
    const values = channels.get(thread_id!) ?? new Map<string, Serialized>();
    channels.set(thread_id!, values);
    for (const [channel, version, value] of change.channels) {
      values.set(JSON.stringify([checkpoint_ns, channel, version]), value);
    }
    const checkpoint = await this.#load(change.checkpoint) as Checkpoint;
    checkpoint.channel_values = {};
    for (const [channel, version] of Object.entries(checkpoint.channel_versions)) {
      const value = values.get(JSON.stringify([checkpoint_ns, channel, version]));
      if (value !== undefined) checkpoint.channel_values[channel] = await this.#load(value);
    }
    await saver.put(config, checkpoint, await this.#load(change.metadata));
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
