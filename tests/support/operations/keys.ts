/** Operations that an API key opens: snapshots, the replication log, Layer A. */

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import {
  balanceOf,
  chunk,
  newPaidKey,
  newProjectToken,
  type PaidKey,
  replicateBody,
  snapshotBody,
} from "../factories.ts";
import type { Answer, World } from "../harness.ts";
import { counter } from "./counting.ts";
import type { Operation, Prepared } from "./mod.ts";

const OPENING = 10_000;
const BYTES = 1000;
const PRICE = 45;

/** A paid key with one snapshot and two blocks, and what nobody else may see of them. */
async function newHolder(
  world: World,
): Promise<{ key: PaidKey; agent: string } & Pick<Prepared, "canaries" | "owned">> {
  const key = await newPaidKey(world, OPENING);
  const agent = `agent-${crypto.randomUUID()}`;
  const snapshot = snapshotBody({ agent_id: agent }, randomBytes(BYTES));
  const blocks = [chunk(0, randomBytes(BYTES)), chunk(1, randomBytes(BYTES))];
  const stored: Answer = await world.request("POST", "/snapshot", { token: key.token, body: snapshot });
  assert.equal(stored.status, 200, stored.text);
  const appended = await world.request("POST", "/replicate", {
    token: key.token,
    body: replicateBody(...blocks),
  });
  assert.equal(appended.status, 200, appended.text);
  const canaries = [
    key.accountId,
    stored.body.snapshot_id,
    snapshot.client_payload_hash as string,
    ...blocks.flatMap((each) => [each.block_hash as string, each.ciphertext_b64 as string]),
  ];
  return { key, agent, canaries, owned: [key.accountId, stored.body.snapshot_id] };
}

async function prepareSnapshot(world: World): Promise<Prepared> {
  const key = await newPaidKey(world, OPENING);
  const agent = `agent-${crypto.randomUUID()}`;
  const body = snapshotBody({ agent_id: agent }, randomBytes(BYTES));
  return {
    path: "/snapshot",
    options: { token: key.token, body },
    canaries: [key.accountId],
    owned: [key.accountId],
    count: counter(
      world,
      `select count(*) as n from app.snapshots where account_id = $1 and status = 'confirmed'
        and client_payload_hash = decode($2, 'hex')`,
      [key.accountId, body.client_payload_hash],
    ),
    check: async () => assert.equal(await balanceOf(world, key.accountId), OPENING - PRICE, "charged once"),
  };
}

async function prepareNextSnapshot(world: World): Promise<Prepared> {
  const { key, agent, canaries, owned } = await newHolder(world);
  const before = await balanceOf(world, key.accountId);
  const body = snapshotBody({ agent_id: agent, sequence_number: 1 }, randomBytes(BYTES));
  return {
    path: "/snapshot",
    options: { token: key.token, body },
    canaries,
    owned,
    count: counter(
      world,
      `select count(*) as n from app.snapshots where account_id = $1 and status = 'confirmed' and sequence_number = 1`,
      [key.accountId],
    ),
    check: async () => assert.equal(await balanceOf(world, key.accountId), before - PRICE, "charged once"),
  };
}

async function prepareAppend(world: World): Promise<Prepared> {
  const { key, canaries, owned } = await newHolder(world);
  const before = await balanceOf(world, key.accountId);
  const blocks = [chunk(2, randomBytes(BYTES)), chunk(3, randomBytes(BYTES))];
  return {
    path: "/replicate",
    options: { token: key.token, body: replicateBody(...blocks), headers: { "x-device-id": "laptop" } },
    canaries,
    owned,
    count: counter(
      world,
      `select count(*) / 2 as n from app.log_entries e join app.logs l on l.id = e.log_id
        where l.owner_id = $1 and e.sequence_number in (2, 3)`,
      [key.accountId],
    ),
    check: async () =>
      assert.equal(await balanceOf(world, key.accountId), before - 2 * PRICE, "charged once"),
  };
}

async function prepareFirstAppend(world: World): Promise<Prepared> {
  const token = newProjectToken();
  const block = chunk(0, randomBytes(BYTES));
  return {
    path: "/replicate",
    options: { token, body: replicateBody(block) },
    canaries: [],
    owned: [],
    count: counter(
      world,
      "select count(*) as n from app.log_entries where block_hash = decode($1, 'hex')",
      [block.block_hash],
    ),
  };
}

function reading(route: string, path: (agent: string) => string): Operation {
  return {
    route,
    name: "read",
    opens: "api key",
    status: 200,
    async prepare(world) {
      const { key, agent, canaries, owned } = await newHolder(world);
      return { path: path(agent), options: { token: key.token }, canaries, owned };
    },
  };
}

export const KEY_OPERATIONS: Operation[] = [
  {
    route: "POST /snapshot",
    name: "store an agent's first snapshot",
    opens: "api key",
    status: 200,
    effect: "once",
    prepare: prepareSnapshot,
  },
  {
    route: "POST /snapshot",
    name: "store the next snapshot",
    opens: "api key",
    status: 200,
    effect: "once",
    prepare: prepareNextSnapshot,
  },
  {
    route: "POST /replicate",
    name: "append to a log",
    opens: "api key",
    status: 200,
    effect: "once",
    prepare: prepareAppend,
  },
  {
    route: "POST /replicate",
    name: "begin a log",
    opens: "api key",
    status: 200,
    effect: "once",
    prepare: prepareFirstAppend,
  },
  reading("GET /snapshot/:agent_id/latest", (agent) => `/snapshot/${agent}/latest`),
  reading("GET /snapshot/:agent_id/lineage", (agent) => `/snapshot/${agent}/lineage`),
  reading("GET /snapshot/:agent_id/:sequence", (agent) => `/snapshot/${agent}/0`),
  reading("GET /head", () => "/head"),
  reading("GET /replay", () => "/replay?since=-1"),
  reading("GET /metadata", () => "/metadata"),
  reading("GET /envelopes", () => "/envelopes"),
];
