/** Runs in the browser: what the package does there. */

import { AgentStateClient, decodeHex, generateMemberKeys, Replicator, StoreInUseError } from "/dist/mod.js";
import { openIndexedDbStore } from "/dist/store_indexeddb.js";

const tasks = { snapshots, append, flush, worker, team };

/** Runs a task by its name. */
export async function run(what, account) {
  return await tasks[what]({ ...account, key: decodeHex(account.key) });
}

async function snapshots(account) {
  const store = await openIndexedDbStore("seen");
  const client = new AgentStateClient({ ...account, agentId: "page", store });
  await client.snapshot({ key: account.key, payload: { from: "a page", text: "ü 🦉" } });
  const { payload } = await client.restore({ key: account.key });
  const missing = await new AgentStateClient({ ...account, agentId: "none" })
    .restore({ key: account.key })
    .catch((error) => ({ code: error.code, request: typeof error.requestId }));
  await store.close();
  return { payload, missing };
}

/** Appends and leaves without sending. */
async function append(account) {
  const store = await openIndexedDbStore("outbox");
  const log = await Replicator.open({ ...account, store });
  await log.append([{ id: "1", text: "written before the tab was closed", timestamp: "1" }]);
  const second = await openIndexedDbStore("outbox").catch((error) => error instanceof StoreInUseError);
  return { waiting: log.waiting, second };
}

async function flush(account) {
  const store = await openIndexedDbStore("outbox");
  const log = await Replicator.open({ ...account, store });
  const { sent } = await log.flush();
  const texts = [];
  for await (const block of log.pull()) texts.push(...block.records.map(({ text }) => text));
  await store.close();
  return { sent, texts };
}

async function worker(account) {
  const code = `
    import { Replicator } from "${location.origin}/dist/mod.js";
    import { openIndexedDbStore } from "${location.origin}/dist/store_indexeddb.js";
    onmessage = async ({ data }) => {
      const log = await Replicator.open({ ...data, store: await openIndexedDbStore("outbox") });
      await log.append([{ id: "2", text: "from a worker", timestamp: "2" }]);
      postMessage(await log.flush());
    };`;
  const url = URL.createObjectURL(new Blob([code], { type: "text/javascript" }));
  const started = new Worker(url, { type: "module" });
  return await new Promise((resolve, reject) => {
    started.onmessage = ({ data }) => resolve(data.sequence);
    started.onerror = reject;
    started.postMessage(account);
  });
}

/** Keys for teams are made by the browser and never leave it. */
async function team() {
  const { privateKey, publicKey } = await generateMemberKeys();
  return { extractable: privateKey.extractable, publicKey: publicKey.split("\n")[0] };
}
