/** A session of the OpenAI Agents SDK whose history is encrypted before it leaves the process. */

import type { AgentInputItem, Session } from "@openai/agents-core";
import type { Json } from "../../canonical_json.ts";
import { Journal } from "../../journal.ts";
import type { Replicator } from "../../replicator.ts";

/** What happens to a session, as it is in the log. */
type Change =
  | { session: string; op: "add"; items: Json[] }
  | { session: string; op: "pop" }
  | { session: string; op: "clear" };

/** The items of each session. */
type Histories = Map<string, Json[]>;

/**
 * Keeps a session's history in a replication log: `new AgentStateSession({ log, sessionId })`. Sessions of one log are
 * told apart by their ids, and may be used by several processes; items are in the order of the log.
 */
export class AgentStateSession implements Session {
  readonly #journal: Journal<Histories>;
  readonly #sessionId: string;

  constructor({ log, sessionId = crypto.randomUUID() }: { log: Replicator; sessionId?: string }) {
    this.#sessionId = sessionId;
    this.#journal = new Journal({
      log,
      kind: "openai-session",
      create: () => new Map(),
      apply: (histories, change) => apply(histories, change as unknown as Change),
    });
  }

  getSessionId(): Promise<string> {
    return Promise.resolve(this.#sessionId);
  }

  /** The newest `limit` items, or all, oldest first. */
  async getItems(limit?: number): Promise<AgentInputItem[]> {
    const items = await this.#items();
    const wanted = limit === undefined ? items : limit <= 0 ? [] : items.slice(-limit);
    return structuredClone(wanted) as unknown as AgentInputItem[];
  }

  /** Appends items. They must be JSON: fields that are undefined are left out, bytes are refused with a TypeError. */
  async addItems(items: AgentInputItem[]): Promise<void> {
    if (items.length > 0) await this.#append({ op: "add", items: items as unknown as Json[] });
  }

  /** Removes the newest item and returns it. */
  async popItem(): Promise<AgentInputItem | undefined> {
    const last = (await this.#items()).at(-1);
    if (last === undefined) return undefined;
    await this.#append({ op: "pop" });
    return structuredClone(last) as unknown as AgentInputItem;
  }

  /** Forgets all items. The log keeps their ciphertext. */
  async clearSession(): Promise<void> {
    await this.#append({ op: "clear" });
  }

  async #items(): Promise<Json[]> {
    return (await this.#journal.read()).get(this.#sessionId) ?? [];
  }

  async #append(change: { op: "pop" | "clear" } | { op: "add"; items: Json[] }): Promise<void> {
    await this.#journal.append({ session: this.#sessionId, ...change });
  }
}

function apply(histories: Histories, change: Change): void {
  const items = histories.get(change.session) ?? [];
  if (change.op === "add") items.push(...change.items);
  else if (change.op === "pop") items.pop();
  histories.set(change.session, change.op === "clear" ? [] : items);
}
