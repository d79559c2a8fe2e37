/** Mixed load for the soak: clients that write, repeat what was not acknowledged, read, and remember what they were told. */

import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { randomBytes } from "node:crypto";
import type { Chance } from "./chance.ts";
import { chunk, newPaidKey, newProjectToken, replicateBody, sha256Hex, snapshotBody } from "./factories.ts";
import type { Answer, RequestOptions } from "./harness.ts";
import type { Lab } from "./lab.ts";
import { memoryBody, newTeam } from "./teams.ts";

const LOGS = 4;
const AGENTS = 3;
const TEAMS = 2;
const BLOCK_BYTES_MAX = 8_192;
/** Between two writes of a client: what is kept stays in memory until it has been found again. */
const PAUSE_MS = 25;
const RETRY_MS = 20;

/** The running load. */
export interface Load {
  clients: number;
  readonly statuses: Record<string, number>;
  /** Answers that nobody should ever be given. */
  readonly unexpected: string[];
  /** Acknowledged writes that were not found again. */
  readonly lost: string[];
  requests(): number;
  /** When a request last succeeded. */
  lastSuccessAt(): number;
  latencies(): string;
  /** Ends the load and looks for everything that was acknowledged. Returns how much that was. */
  stop(): Promise<number>;
}

/** One client: writes one thing after another, and can read back all that it wrote. */
interface Writer {
  /** Sends the next write until it is acknowledged or the load ends. */
  write(): Promise<void>;
  /** What was acknowledged and is not there. */
  missing(): Promise<string[]>;
  acknowledged(): number;
}

/** Starts the load. */
export async function startLoad(lab: Lab, chance: Chance): Promise<Load> {
  const statuses: Record<string, number> = {};
  const unexpected: string[] = [];
  const lost: string[] = [];
  const times: number[] = [];
  let requests = 0;
  let succeededAt = 0;
  let running = true;

  async function send(method: string, path: string, options: RequestOptions): Promise<Answer | undefined> {
    const started = performance.now();
    const answer = await lab.request(method, path, options);
    requests++;
    const status = answer?.status ?? "none";
    statuses[status] = (statuses[status] ?? 0) + 1;
    if (answer === undefined) return undefined;
    if (answer.status >= 500 && answer.status !== 503) unexpected.push(`${method} ${path}: ${answer.text}`);
    if (answer.status < 300) {
      succeededAt = performance.now();
      times.push(performance.now() - started);
    }
    return answer;
  }

  /** Repeats a write until it is acknowledged; false when the load ends first. */
  async function insist(path: string, options: RequestOptions): Promise<Answer | undefined> {
    while (running) {
      const answer = await send("POST", path, options);
      if (answer !== undefined && answer.status < 300) return answer;
      if (answer !== undefined && answer.status < 500) unexpected.push(`POST ${path}: ${answer.text}`);
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
    return undefined;
  }

  const block = () => randomBytes(1 + chance.below(BLOCK_BYTES_MAX));
  const writers = [
    ...await Promise.all(
      Array.from({ length: LOGS }, (_, i) => newLog(lab, { send, insist, block }, i % 2 === 0)),
    ),
    ...Array.from({ length: AGENTS }, () => newAgent(lab, { send, insist, block })),
    ...await Promise.all(Array.from({ length: TEAMS }, () => newTeamWriter(lab, { send, insist, block }))),
  ];

  async function run(writer: Writer): Promise<void> {
    while (running) {
      await writer.write();
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    }
  }

  const working = writers.map(run);
  return {
    clients: writers.length,
    statuses,
    unexpected,
    lost,
    requests: () => requests,
    lastSuccessAt: () => succeededAt,
    latencies() {
      const sorted = times.toSorted((a, b) => a - b);
      const at = (share: number) => Math.round(sorted[Math.floor(sorted.length * share)] ?? 0);
      return `${at(0.5)} ms, ${at(0.99)} ms`;
    },
    async stop() {
      running = false;
      await Promise.all(working);
      for (const writer of writers) lost.push(...await writer.missing());
      return writers.reduce((sum, writer) => sum + writer.acknowledged(), 0);
    },
  };
}

interface Means {
  send(method: string, path: string, options: RequestOptions): Promise<Answer | undefined>;
  insist(path: string, options: RequestOptions): Promise<Answer | undefined>;
  block(): Uint8Array;
}

/** A replication log, of a project or of somebody who pays. */
async function newLog(lab: Lab, { send, insist, block }: Means, paid: boolean): Promise<Writer> {
  const token = paid ? (await newPaidKey(lab.world, 1_000_000_000_000)).token : newProjectToken();
  const hashes: string[] = [];
  return {
    acknowledged: () => hashes.length,
    async write() {
      const next = chunk(hashes.length, block());
      const answer = await insist("/replicate", { token, body: replicateBody(next) });
      if (answer !== undefined) hashes.push(next.block_hash as string);
      if (hashes.length % 10 === 0) await send("GET", `/replay?since=${hashes.length - 5}`, { token });
    },
    async missing() {
      const kept: string[] = [];
      for (let more = true; more;) {
        const { body } = await lab.world.request("GET", `/replay?since=${kept.length - 1 || -1}`, { token });
        const fresh = body.chunks.slice(kept.length === 1 ? 1 : 0);
        for (const each of fresh) {
          assert.equal(sha256Hex(Buffer.from(each.ciphertext_b64, "base64")), each.block_hash);
          kept.push(each.block_hash);
        }
        more = body.has_more;
      }
      return hashes.filter((hash, i) => kept[i] !== hash);
    },
  };
}

/** The snapshots of one agent. */
function newAgent(lab: Lab, { send, insist, block }: Means): Writer {
  const token = newProjectToken();
  const agent = `agent-${crypto.randomUUID()}`;
  const hashes: string[] = [];
  return {
    acknowledged: () => hashes.length,
    async write() {
      const bytes = block();
      const over = { agent_id: agent, sequence_number: hashes.length, client_payload_hash: sha256Hex(bytes) };
      const answer = await insist("/snapshot", { token, body: snapshotBody(over, bytes) });
      if (answer !== undefined) hashes.push(sha256Hex(bytes));
      if (hashes.length % 10 === 0) await send("GET", `/snapshot/${agent}/lineage`, { token });
    },
    async missing() {
      const { rows } = await lab.world.sql.query(
        `select s.sequence_number::int as at, s.object_name from app.snapshots s join app.agents g on g.id = s.agent_ref
          where g.agent_id = $1 and s.status = 'confirmed'`,
        [agent],
      );
      const kept = new Map(rows.map(({ at, object_name }) => [at, lab.storage.objects.get(object_name)]));
      return hashes.filter((hash, i) => kept.get(i) === undefined || sha256Hex(kept.get(i)!) !== hash);
    },
  };
}

/** The memory of one team: a lost answer may have left an entry that is written once more. */
async function newTeamWriter(lab: Lab, { insist, block }: Means): Promise<Writer> {
  const team = await newTeam(lab.world);
  const ids: string[] = [];
  return {
    acknowledged: () => ids.length,
    async write() {
      const answer = await insist(`/teams/${team.id}/memories`, {
        // Sessions are short; each write has its own.
        token: await lab.world.issuer.token(team.owner.subject),
        body: memoryBody({}, block()),
      });
      if (answer !== undefined) ids.push(answer.body.id);
    },
    async missing() {
      const { rows } = await lab.world.sql.query("select id from app.team_memories where team_id = $1", [
        team.id,
      ]);
      const kept = new Set(rows.map(({ id }) => id));
      return ids.filter((id) => !kept.has(id));
    },
  };
}
