/** `status` and `verify`: where things stand, and whether they are as they must be. */

import { IntegrityError } from "../errors.ts";
import { Transport } from "../transport.ts";
import { type Home, withReplicator, withSnapshots } from "./home.ts";
import type { Terminal } from "./terminal.ts";

/** Where the log and the snapshots stand, here and at the service. */
export async function status(home: Home, agent: string) {
  const transport = new Transport({ baseUrl: home.url, token: home.token });
  const metadata = await transport.request<Record<string, unknown>>("GET", "/metadata");
  const newest = await withSnapshots(home, agent, (client) => client.lineage({ limit: 1 }));
  const { head, waiting } = await withReplicator(home, async (log) => {
    return { head: await log.head(), waiting: log.waiting };
  });
  return {
    url: home.url,
    home: home.directory,
    log: head === undefined ? null : { sequence_number: head.sequence_number, merkle_root: head.merkle_root },
    waiting_blocks: waiting,
    agent,
    latest_snapshot: newest[0]?.sequence_number ?? null,
    metadata,
  };
}

/** What a verification found. */
export interface Verified {
  valid: boolean;
  /** Blocks that were read, decrypted and found in their place. */
  blocks: number;
  /** Snapshots whose line is unbroken. */
  snapshots: number;
  reason?: string;
  code?: string;
}

/** Reads and decrypts the whole log, the newest 500 snapshots' lineage, and the latest snapshot itself. */
export async function verify(home: Home, agent: string, terminal: Terminal): Promise<Verified> {
  let [blocks, snapshots] = [0, 0];
  try {
    await withReplicator(home, async (log) => {
      const total = ((await log.head())?.sequence_number ?? -1) + 1;
      for await (const _ of log.pull()) terminal.progress("verified", ++blocks, Math.max(blocks, total));
    });
    await withSnapshots(home, agent, async (client) => {
      snapshots = (await client.lineage({ limit: 500 })).length;
      if (snapshots > 0) await client.restore({ key: home.key });
    });
    return { valid: true, blocks, snapshots };
  } catch (error) {
    if (!(error instanceof IntegrityError)) throw error;
    return { valid: false, blocks, snapshots, code: error.code, reason: error.message };
  }
}
