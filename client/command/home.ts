/** The command's own directory: the token, the key, and what must survive a crash. */

import { chmod, mkdir, readFile, stat } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { AgentStateClient } from "../agent_state_client.ts";
import { decodeHex, encodeHex, encodeText } from "../bytes.ts";
import { generateKey } from "../cipher.ts";
import { sha256Hex } from "../hash_chain.ts";
import { Replicator } from "../replicator.ts";
import { createPrivateFile, type FileStore, openFileStore } from "../store_file.ts";

const LOCAL_URL = "http://127.0.0.1:8787/functions/v1/v2-agent-state";
/** How long to wait for another command that is running on the same directory. */
const WAIT_MS = 10_000;

/** What the caller says; what they do not say comes from the environment, then from the directory. */
export interface HomeOptions {
  home?: string | undefined;
  url?: string | undefined;
  token?: string | undefined;
}

/** An opened directory. */
export interface Home {
  directory: string;
  /** What belongs to this service and token: the outbox, and what was seen. */
  state: string;
  url: string;
  token: string;
  key: Uint8Array;
  /** Whether the key was made just now: then nothing that was encrypted before can be read with it. */
  madeKey: boolean;
}

/** What the directory remembers of the service. */
interface Config {
  url: string;
  token: string;
}

/** Something that the user can put right. */
export class UsageError extends Error {}

/** Opens the directory, making it, the key and a token on first use. */
export async function openHome(options: HomeOptions): Promise<Home> {
  const environment = process.env;
  const directory = options.home || environment.AGENT_STATE_HOME || join(homedir(), ".agent-state");
  await mkdir(directory, { recursive: true, mode: 0o700 });
  const url = options.url || environment.AGENT_STATE_URL || undefined;
  const token = options.token || environment.AGENT_STATE_TOKEN || undefined;
  if (url !== undefined && !URL.canParse(url)) throw new UsageError(`Not a URL: ${url}`);
  const fresh = { url: url ?? LOCAL_URL, token: token ?? `sov_proj_${crypto.randomUUID()}` };
  const configPath = join(directory, "config.json");
  await createPrivateFile(configPath, encodeText(`${JSON.stringify(fresh, undefined, 2)}\n`));
  const config = JSON.parse(await readFile(configPath, "utf8")) as Config;
  const keyPath = join(directory, "key");
  const madeKey = await createPrivateFile(keyPath, encodeText(`${encodeHex(generateKey())}\n`));
  const service = { url: url ?? config.url, token: token ?? config.token };
  return { directory, state: stateOf(directory, service), ...service, key: await readKey(keyPath), madeKey };
}

/** Where the state of a service and token is. The token is not written down a second time. */
export function stateOf(directory: string, { url, token }: Config): string {
  return join(directory, `state-${sha256Hex(`${url} ${token}`).slice(0, 16)}`);
}

/** Runs with the directory's replication log; one command at a time has it. */
export async function withReplicator<T>(home: Home, run: (log: Replicator) => Promise<T>): Promise<T> {
  return await withStore(home, "outbox", async (store) => {
    const { url: baseUrl, token, key } = home;
    return await run(await Replicator.open({ baseUrl, token, key, store }));
  });
}

/** Runs with the snapshots of an agent. */
export async function withSnapshots<T>(
  home: Home,
  agentId: string,
  run: (client: AgentStateClient) => Promise<T>,
): Promise<T> {
  return await withStore(home, "seen", async (store) => {
    const { url: baseUrl, token } = home;
    return await run(new AgentStateClient({ baseUrl, token, agentId, store }));
  });
}

async function withStore<T>(home: Home, name: string, run: (store: FileStore) => Promise<T>): Promise<T> {
  const store = await openFileStore(join(home.state, name), { waitMs: WAIT_MS });
  try {
    return await run(store);
  } finally {
    await store.close();
  }
}

/** Reads the key, and refuses one that others on this machine could have read. */
async function readKey(path: string): Promise<Uint8Array> {
  const { mode } = await stat(path);
  if (process.platform !== "win32" && (mode & 0o077) !== 0) {
    throw new UsageError(`${path} can be read by others. If nobody has: chmod 600 ${path}`);
  }
  await chmod(path, 0o600);
  const text = (await readFile(path, "utf8")).trim();
  if (!/^[0-9a-f]{64}$/i.test(text)) throw new UsageError(`${path} does not hold a key of 64 hex digits`);
  return decodeHex(text);
}
