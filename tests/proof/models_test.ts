/**
 * Snapshots with money, the replication log, and the payment provider's events, each against plain data: random programs,
 * some of their steps at once, answer what the data say and leave what the data say.
 */

import assert from "node:assert/strict";
import fc from "npm:fast-check@4.10.2";
import { sweepSnapshots } from "../../supabase/functions/v2-agent-state/flows/sweep_snapshots.ts";
import { openClaim, THOROUGH } from "../support/claims.ts";
import {
  balanceOf,
  chunk,
  endLeases,
  newPaidKey,
  type PaidKey,
  replicateBody,
  sha256Hex,
  snapshotBody,
} from "../support/factories.ts";
import { type Answer, onOneBackend, type World } from "../support/harness.ts";
import { checkModel, type Expected, type Extent } from "../support/model_runner.ts";
import { event, order, post, withSettings } from "../support/polar.ts";

const EXTENT: Extent = { runs: THOROUGH ? 150 : 20, stepsMax: 25, atOnceMax: 6 };
const PRICE_OF_BYTE = 45;

/** Rounded up once for a request. Spec 4.2. */
function priceOf(bytes: number): number {
  return Math.ceil((bytes * PRICE_OF_BYTE) / 1000);
}

// Snapshots and money ----------------------------------------------------------------------------------------

type SnapshotAction =
  | { kind: "push"; distance: number; rival: number; bytes: number; broken: boolean }
  | { kind: "latest" }
  | { kind: "sweep" }
  | { kind: "buy"; milli: number };

interface SnapshotModel {
  balance: number;
  hashes: string[];
}

interface Holder {
  world: World;
  key: PaidKey;
  agent: string;
}

const pushed = fc.record({
  kind: fc.constant("push" as const),
  distance: fc.constantFrom(1, 1, 1, 1, 0, -1, 2),
  rival: fc.nat(1),
  bytes: fc.integer({ min: 1, max: 3_000 }),
  broken: fc.integer({ min: 0, max: 5 }).map((n) => n === 0),
});
const snapshotAction: fc.Arbitrary<SnapshotAction> = fc.oneof(
  { weight: 6, arbitrary: pushed },
  { weight: 2, arbitrary: fc.constant<SnapshotAction>({ kind: "latest" }) },
  { weight: 1, arbitrary: fc.constant<SnapshotAction>({ kind: "sweep" }) },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant("buy" as const), milli: fc.integer({ min: 1, max: 300 }) }),
  },
);

function aim({ hashes }: SnapshotModel, { distance, rival, bytes }: SnapshotAction & { kind: "push" }) {
  const sequence = Math.max(hashes.length - 1 + distance, 0);
  return { sequence, hash: sha256Hex(`${sequence} ${rival} ${bytes}`) };
}

function applySnapshot(model: SnapshotModel, action: SnapshotAction): Expected {
  if (action.kind === "latest") {
    return model.hashes.length > 0 ? { status: 200 } : { status: 404, error: "no_snapshots_for_agent" };
  }
  if (action.kind === "sweep") return { status: 200 };
  if (action.kind === "buy") {
    model.balance += action.milli;
    return { status: 200 };
  }
  const { sequence, hash } = aim(model, action);
  const existing = model.hashes[sequence];
  if (existing !== undefined && existing !== hash) return { status: 409, error: "sequence_conflict" };
  if (existing !== undefined && sequence === model.hashes.length - 1) return { status: 200 };
  if (sequence !== model.hashes.length) return { status: 409, error: "sequence_gap" };
  if (model.balance < priceOf(action.bytes)) return { status: 402, error: "insufficient_credits" };
  if (action.broken) return { status: 503, error: "storage_unavailable" };
  model.balance -= priceOf(action.bytes);
  model.hashes.push(hash);
  return { status: 200 };
}

/** An answer for what is done without a request. */
const DONE: Answer = { status: 200, body: {}, text: "", headers: new Headers() };

async function performSnapshot(
  { world, key, agent }: Holder,
  model: SnapshotModel,
  action: SnapshotAction,
): Promise<Answer> {
  switch (action.kind) {
    case "latest":
      return await world.request("GET", `/snapshot/${agent}/latest`, { token: key.token });
    case "sweep":
      await endLeases(world, key);
      await sweepSnapshots(world.platform, 1000);
      return DONE;
    case "buy":
      await world.platform.db.call("grant_credits", {
        p_subject: key.subject,
        p_amount_milli: action.milli,
        p_actor: "test",
        p_note: "more",
        p_reference: crypto.randomUUID(),
      });
      return DONE;
    case "push": {
      const { sequence, hash } = aim(model, action);
      const over = { agent_id: agent, sequence_number: sequence, client_payload_hash: hash };
      const body = snapshotBody(over, new Uint8Array(action.bytes));
      const put = () => Promise.reject(new Error("told to fail"));
      const service = action.broken ? world.with({ blobs: { put } }) : world;
      return await service.request("POST", "/snapshot", { token: key.token, body });
    }
  }
}

/** Who was first is read from the lineage; what it cost follows from it. */
async function mergeSnapshots({ world, key, agent }: Holder, model: SnapshotModel): Promise<void> {
  const { body } = await world.request("GET", `/snapshot/${agent}/lineage?limit=500`, { token: key.token });
  const hashes: string[] = body.map((entry: { client_payload_hash: string }) => entry.client_payload_hash)
    .reverse();
  assert.deepEqual(hashes.slice(0, model.hashes.length), model.hashes, "what was confirmed stays");
  model.hashes = hashes;
  model.balance = await balanceOf(world, key.accountId);
}

// The replication log ----------------------------------------------------------------------------------------

type LogAction =
  | { kind: "append"; distance: number; rivals: number[]; reversed: boolean; doubled: boolean }
  | { kind: "head" }
  | { kind: "replay" };

interface LogModel {
  log: string[];
  balance: number;
}

const logAction: fc.Arbitrary<LogAction> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant("append" as const),
      distance: fc.constantFrom(1, 1, 1, 0, -1, -2, 2),
      rivals: fc.array(fc.constantFrom(0, 0, 0, 1), { minLength: 1, maxLength: 4 }),
      reversed: fc.boolean(),
      doubled: fc.boolean(),
    }),
  },
  { weight: 1, arbitrary: fc.constant<LogAction>({ kind: "head" }) },
  { weight: 1, arbitrary: fc.constant<LogAction>({ kind: "replay" }) },
);

const blockOf = (sequence: number, rival: number) => `${"x".repeat(100)} ${sequence} ${rival}`;

function blocksOf({ log }: LogModel, { distance, rivals }: LogAction & { kind: "append" }) {
  // A log may begin with number 1; these all begin with 0.
  const from = log.length === 0 ? 0 : Math.max(log.length - 1 + distance, 0);
  return rivals.map((rival, i) => ({ sequence: from + i, block: blockOf(from + i, rival) }));
}

function applyLog(model: LogModel, action: LogAction): Expected {
  if (action.kind === "head") {
    return model.log.length > 0 ? { status: 200 } : { status: 404, error: "no_replication_entries" };
  }
  if (action.kind === "replay") return { status: 200 };
  const blocks = blocksOf(model, action);
  const conflicts = blocks.filter(({ sequence, block }) => (model.log[sequence] ?? block) !== block);
  if (conflicts.length > 0) return { status: 409, error: "split_brain_detected" };
  const fresh = blocks.filter(({ sequence }) => sequence >= model.log.length);
  if (fresh.length === 0) return { status: 200 };
  if (fresh[0]!.sequence !== model.log.length) return { status: 409, error: "sequence_gap" };
  const price = priceOf(fresh.reduce((sum, { block }) => sum + block.length, 0));
  if (price > model.balance) return { status: 402, error: "insufficient_credits" };
  model.balance -= price;
  model.log.push(...fresh.map(({ block }) => block));
  return { status: 200 };
}

async function performLog({ world, key }: Holder, model: LogModel, action: LogAction): Promise<Answer> {
  const { token } = key;
  if (action.kind === "head") return await world.request("GET", "/head", { token });
  if (action.kind === "replay") return await world.request("GET", "/replay?since=-1", { token });
  const chunks = blocksOf(model, action).map(({ sequence, block }) => chunk(sequence, block));
  if (action.doubled) chunks.push(chunks[0]!);
  if (action.reversed) chunks.reverse();
  return await world.request("POST", "/replicate", { token, body: replicateBody(...chunks) });
}

async function readLog({ world, key }: Holder): Promise<string[]> {
  const { body } = await world.request("GET", "/replay?since=-1", { token: key.token });
  return body.chunks.map(({ ciphertext_b64 }: { ciphertext_b64: string }) => atob(ciphertext_b64));
}

// Events of the payment provider -----------------------------------------------------------------------------

/** An order's events: each may come in any order, and any number of times. */
type PaymentAction = { kind: "paid" | "refunded"; of: number; share: number; again: boolean };

interface PaymentModel {
  orders: { paid: boolean; refunded: number }[];
}

interface Payer {
  world: World;
  orders: { object: Record<string, unknown>; ids: Map<string, string> }[];
  subject: string;
}

const ORDERS = 3;
const CREDITS = 1_000_000;
const PRICE_CENTS = 1_000;

const paymentAction: fc.Arbitrary<PaymentAction> = fc.record({
  kind: fc.constantFrom("paid" as const, "refunded" as const),
  of: fc.nat(ORDERS - 1),
  share: fc.constantFrom(250, 500, 1_000),
  again: fc.boolean(),
});

function applyPayment({ orders }: PaymentModel, { kind, of, share }: PaymentAction): Expected {
  const each = orders[of]!;
  if (kind === "paid") each.paid = true;
  else each.refunded = Math.max(each.refunded, share);
  return { status: 200 };
}

async function performPayment(
  { world, orders }: Payer,
  _model: PaymentModel,
  action: PaymentAction,
): Promise<Answer> {
  const { object, ids } = orders[action.of]!;
  const share = action.kind === "paid" ? 0 : action.share;
  const name = `${action.kind} ${share}`;
  // A repetition has the id of the first; an event of the same content may also come under another one.
  if (!ids.has(name) || !action.again) ids.set(name, `msg_${crypto.randomUUID()}`);
  const status = share === 0 ? "paid" : share === PRICE_CENTS ? "refunded" : "partially_refunded";
  const data = { ...object, refunded_amount: share, status };
  return await post(withSettings(world, {}), event(`order.${action.kind}`, data), { id: ids.get(name)! });
}

const snapshotsHeld = openClaim("Snapshots, their holds and refunds are what their model says");
const logHeld = openClaim("A replication log and its price are what their model says");
const paymentsHeld = openClaim("Payments count once each, in any order and however often they are told");

onOneBackend((test) => {
  test("snapshots, their money and their failures follow their model", async (world) => {
    snapshotsHeld(
      await checkModel<SnapshotModel, Holder, SnapshotAction>({
        action: snapshotAction,
        async setUp() {
          const key = await newPaidKey(world, 500);
          return { model: { balance: 500, hashes: [] }, real: { world, key, agent: crypto.randomUUID() } };
        },
        perform: performSnapshot,
        apply: applySnapshot,
        inspect: (_real, model, action, { body }) => {
          if (action.kind === "latest" && body.receipt) {
            assert.equal(body.receipt.client_payload_hash, model.hashes.at(-1));
          }
        },
        async merge(real, model) {
          await mergeSnapshots(real, model);
        },
        async assertKept(real, model) {
          await endLeases(world, real.key);
          await sweepSnapshots(world.platform, 1000);
          const kept: SnapshotModel = structuredClone(model);
          await mergeSnapshots(real, kept);
          assert.deepEqual(kept, model);
        },
      }, EXTENT),
    );
  });

  test("a replication log and its price follow their model", async (world) => {
    logHeld(
      await checkModel<LogModel, Holder, LogAction>({
        action: logAction,
        async setUp() {
          const key = await newPaidKey(world, 60);
          return { model: { balance: 60, log: [] }, real: { world, key, agent: "" } };
        },
        perform: performLog,
        apply: applyLog,
        async merge(real, model) {
          const log = await readLog(real);
          assert.deepEqual(log.slice(0, model.log.length), model.log, "what was there stays");
          model.log = log;
          model.balance = await balanceOf(world, real.key.accountId);
        },
        async assertKept(real, model) {
          assert.deepEqual(await readLog(real), model.log);
          assert.equal(await balanceOf(world, real.key.accountId), model.balance);
        },
      }, EXTENT),
    );
  });

  test("payments and refunds, repeated and out of order, come to what their model says", async (world) => {
    paymentsHeld(
      await checkModel<PaymentModel, Payer, PaymentAction>({
        action: paymentAction,
        async setUp() {
          const subject = `user-${crypto.randomUUID()}`;
          const over = { customer: { id: "customer-1", external_id: subject }, net_amount: PRICE_CENTS };
          const orders = Array.from(
            { length: ORDERS },
            () => ({ object: order(over), ids: new Map<string, string>() }),
          );
          const model = { orders: orders.map(() => ({ paid: false, refunded: 0 })) };
          return { model, real: { world, orders, subject } };
        },
        perform: performPayment,
        apply: applyPayment,
        async merge(_real, model, done) {
          for (const { action, answer } of done) {
            assert.equal(answer.status, 200, answer.text);
            applyPayment(model, action);
          }
        },
        async assertKept({ subject }, { orders }) {
          const { rows } = await world.sql.query(
            "select credits_milli::int as n from app.accounts where subject = $1",
            [
              subject,
            ],
          );
          const due = orders.filter(({ paid }) => paid)
            .reduce((sum, { refunded }) => sum + CREDITS - (CREDITS * refunded) / PRICE_CENTS, 0);
          assert.equal(rows[0]?.n ?? 0, due);
        },
      }, EXTENT),
    );
  });
});
