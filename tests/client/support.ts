/** What the client's tests share: a service over real HTTP, and ways to spoil what comes from it. */

import { createApp } from "../../supabase/functions/v2-agent-state/app.ts";
import { readSettings } from "../../supabase/functions/_shared/env.ts";
import type { AgentStateOptions } from "../../client/agent_state_client.ts";
import { AgentStateClient, generateKey } from "../../client/mod.ts";
import type { ReplicatorOptions } from "../../client/replicator.ts";
import { Replicator } from "../../client/replicator.ts";
import { createMemoryStore } from "../../client/store.ts";
import { type FileStore, openFileStore } from "../../client/store_file.ts";
import type { ServiceOptions } from "../../client/transport.ts";
import type { World } from "../support/harness.ts";

/** A request on its way, and what becomes of it: `forward` sends it on. */
export type Meddler = (
  request: Request,
  forward: (request: Request) => Promise<Response>,
) => Promise<Response>;

/** A served world. */
export interface Served extends AsyncDisposable {
  baseUrl: string;
  /** Stands between client and service until it is set to undefined. */
  meddle(meddler: Meddler | undefined): void;
  /** `METHOD path` of every request that came. */
  requests: string[];
}

/** Serves a world on a port of its own. */
export function serve(world: World): Served {
  const app = createApp(world.platform, readSettings({}));
  const requests: string[] = [];
  const forward = async (request: Request) => await app.fetch(request);
  let meddler: Meddler | undefined;
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, (request) => {
    const { pathname, search } = new URL(request.url);
    requests.push(`${request.method} ${pathname}${search}`);
    return meddler === undefined ? forward(request) : meddler(request, forward);
  });
  return {
    baseUrl: `http://127.0.0.1:${server.addr.port}`,
    requests,
    meddle: (next) => void (meddler = next),
    [Symbol.asyncDispose]: () => server.shutdown(),
  };
}

/** A project token that nobody else has. */
export function newToken(): string {
  return `sov_proj_${crypto.randomUUID()}`;
}

/** A token and a key that several devices share. */
export function newAccount() {
  return { token: newToken(), key: generateKey() };
}

/** Opens a store that is closed at the end of the block. */
export async function openStore(directory: string): Promise<FileStore & AsyncDisposable> {
  const store = await openFileStore(directory);
  return { ...store, [Symbol.asyncDispose]: () => store.close() };
}

/** Waits that a test need not wait for. */
export const IMPATIENT: Partial<ServiceOptions> = { sleep: () => Promise.resolve() };

/** A client with a token and an agent of its own. */
export function newClient(served: Served, over: Partial<AgentStateOptions> = {}): AgentStateClient {
  const { baseUrl } = served;
  return new AgentStateClient({ baseUrl, token: newToken(), agentId: "agent", ...IMPATIENT, ...over });
}

/** A log with a token, a key and a store of its own. */
export function newReplicator(served: Served, over: Partial<ReplicatorOptions> = {}): Promise<Replicator> {
  const own = { ...newAccount(), store: createMemoryStore() };
  return Replicator.open({ baseUrl: served.baseUrl, ...own, ...IMPATIENT, ...over });
}

/** A record to append. */
export function record(text: string, id: string = crypto.randomUUID()) {
  return { id, text, timestamp: "1700000000000" };
}

/** Texts of a whole log, in order. */
export async function readTexts(replicator: Replicator): Promise<string[]> {
  const texts: string[] = [];
  for await (const block of replicator.pull()) texts.push(...block.records.map(({ text }) => text));
  return texts;
}

/** Answers with the service's JSON after `change` has been at it. */
export function spoil<T>(matches: RegExp, change: (body: T) => unknown): Meddler {
  return async (request, forward) => {
    const response = await forward(request);
    if (!matches.test(`${request.method} ${new URL(request.url).pathname}`)) return response;
    return Response.json(change(await response.json()), { status: response.status });
  };
}
