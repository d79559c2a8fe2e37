/** What a person used of what they subscribed to: GET /billing/usage and /billing/subscription. Spec 2.6a, 2.9, 4.6. */

import assert from "node:assert/strict";
import { randomBytes, randomInt } from "node:crypto";
import { eventually } from "../support/eventually.ts";
import { chunk, newKeyOf, newPaidKey, replicateBody, snapshotBody } from "../support/factories.ts";
import { onEveryBackend, type World } from "../support/harness.ts";

const NOTHING = { sync_ops: 0, store_ops: 0, recall_requests: 0, bytes_stored: 0, devices: 0 };
const UNLIMITED = 9_007_199_254_740_991;

/** Somebody with an account, credit and a few keys. */
interface Customer {
  subject: string;
  accountId: string;
  session: string;
  keys: string[];
  /** What the next writes carry. */
  nextChunk: number;
  nextSnapshot: number;
}

onEveryBackend((test) => {
  test("GET /billing/usage is all zero at first", async (world) => {
    const token = await world.issuer.token(`user-${crypto.randomUUID()}`);
    const { status, body } = await world.request("GET", "/billing/usage", { token });
    assert.deepEqual([status, body], [200, { usage: NOTHING }]);
  });

  test("GET /billing/usage equals a recount from the rows after a random workload over several keys", async (world) => {
    const [customer, other] = [await newCustomer(world), await newCustomer(world)];
    const devices = ["laptop", "phone", "server"];
    let recalls = 0;
    await write(world, other, "other");
    const others = await usageOf(world, other);
    for (let round = 0; round < 12; round++) {
      await write(world, customer, devices[round % devices.length]!);
      recalls += await read(world, customer);
    }
    const expected = { ...await recount(world, customer.accountId), recall_requests: recalls, devices: 3 };
    assert.ok(expected.sync_ops >= 12 && expected.store_ops > 24, JSON.stringify(expected));
    await eventually(
      "the reads are counted",
      async () => (await usageOf(world, customer)).recall_requests >= recalls,
    );
    assert.deepEqual(await usageOf(world, customer), expected);
    assert.deepEqual(await usageOf(world, other), others);
  });

  test("GET /billing/usage counts concurrent writes of several keys exactly", async (world) => {
    const customer = await newCustomer(world);
    await Promise.all(Array.from({ length: 24 }, async (_, i) => {
      const body = snapshotBody({ agent_id: `agent-${i}` }, randomBytes(randomInt(1, 3_000)));
      const token = customer.keys[i % customer.keys.length]!;
      assert.equal((await world.request("POST", "/snapshot", { token, body })).status, 200);
    }));
    const { store_ops, bytes_stored } = await usageOf(world, customer);
    const expected = await recount(world, customer.accountId);
    assert.deepEqual([store_ops, bytes_stored], [24, expected.bytes_stored]);
  });

  test("GET /billing/usage counts nothing for what is refused, repeated or only looked at", async (world) => {
    const { keys: [token], session } = await newCustomer(world);
    const [block, snapshot] = [replicateBody(chunk(0)), snapshotBody()];
    await world.request("POST", "/replicate", { token, body: block });
    await world.request("POST", "/snapshot", { token, body: snapshot });
    const before = await world.request("GET", "/billing/usage", { token: session });
    for (
      const [method, path, body] of [
        ["POST", "/replicate", block],
        ["POST", "/replicate", replicateBody(chunk(0))],
        ["POST", "/replicate", replicateBody(chunk(9))],
        ["POST", "/snapshot", snapshot],
        ["POST", "/snapshot", snapshotBody()],
        ["POST", "/snapshot", snapshotBody({ sequence_number: 9 })],
        ["POST", "/snapshot", "{"],
      ] as const
    ) await world.request(method, path, { token, body });
    assert.equal((await world.request("GET", "/billing/usage", { token: session })).text, before.text);
  });

  test("usage starts anew with each period of a subscription, and returns to the calendar month without one", async (world) => {
    const customer = await newCustomer(world);
    await write(world, customer, "laptop");
    const month = await usageOf(world, customer);
    await subscribe(world, customer.accountId, { current_period_start: "2026-01-15T10:00:00Z" });
    assert.deepEqual(await usageOf(world, customer), { ...NOTHING, devices: 1 });

    await write(world, customer, "laptop");
    const first = await usageOf(world, customer);
    assert.equal(
      first.bytes_stored,
      (await recount(world, customer.accountId)).bytes_stored - month.bytes_stored,
    );
    await subscribe(world, customer.accountId, { current_period_start: "2026-02-15T10:00:00Z" });
    assert.deepEqual(await usageOf(world, customer), { ...NOTHING, devices: 1 });

    await subscribe(world, customer.accountId, {
      current_period_start: "2026-02-15T10:00:00Z",
      plan: "growth",
    });
    await write(world, customer, "laptop");
    const second = await usageOf(world, customer);
    assert.ok(second.sync_ops > 0);
    await subscribe(world, customer.accountId, { status: "canceled" });
    assert.deepEqual(await usageOf(world, customer), month);
    await subscribe(world, customer.accountId, { current_period_start: "2026-02-15T10:00:00Z" });
    assert.deepEqual(await usageOf(world, customer), second);
    await world.sql.query("delete from app.subscriptions where account_id = $1", [customer.accountId]);
    assert.deepEqual(await usageOf(world, customer), month);
  });

  test("GET /billing/subscription answers the Free plan and its quotas when there is none", async (world) => {
    const subject = `user-${crypto.randomUUID()}`;
    const token = await world.issuer.token(subject);
    const { status, body } = await world.request("GET", "/billing/subscription", { token });
    const now = new Date();
    assert.deepEqual([status, body], [200, {
      subscription: {
        user_id: subject,
        plan: "free",
        status: "active",
        quota_sync_ops: UNLIMITED,
        quota_storage_bytes: UNLIMITED,
        quota_subkeys: UNLIMITED,
        quota_devices: 3,
        polar_customer_id: null,
        polar_subscription_id: null,
        current_period_end: new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1)).toISOString(),
      },
    }]);
  });

  test("GET /billing/subscription shows the caller's subscription, with seats where they scale, and nobody else's", async (world) => {
    const [customer, stranger] = [await newCustomer(world), await newCustomer(world)];
    await subscribe(world, customer.accountId, { plan: "enterprise", seat_count: 7, included_seats: 5 });
    const { rows } = await world.sql.query("select * from app.subscriptions where account_id = $1", [
      customer.accountId,
    ]);
    const { status, body } = await world.request("GET", "/billing/subscription", { token: customer.session });
    const expected = {
      user_id: customer.subject,
      plan: "enterprise",
      status: "active",
      quota_sync_ops: 10,
      quota_storage_bytes: 20,
      quota_subkeys: 30,
      quota_devices: UNLIMITED,
      polar_customer_id: rows[0].polar_customer_id,
      polar_subscription_id: rows[0].polar_subscription_id,
      current_period_end: "2100-01-01T00:00:00.000Z",
    };
    assert.deepEqual([status, body.subscription], [200, { ...expected, seat_count: 7, included_seats: 5 }]);
    await subscribe(world, customer.accountId, { status: "canceled", plan: "pro", current_period_end: null });
    const canceled = await world.request("GET", "/billing/subscription", { token: customer.session });
    assert.deepEqual(canceled.body.subscription, {
      ...expected,
      plan: "pro",
      status: "canceled",
      current_period_end: null,
    });
    const others = await world.request("GET", "/billing/subscription", { token: stranger.session });
    assert.equal(others.body.subscription.plan, "free");
  });
});

async function newCustomer(world: World): Promise<Customer> {
  const { token, accountId, subject } = await newPaidKey(world);
  const more = [await newKeyOf(world, accountId), await newKeyOf(world, accountId)];
  const keys = [token, ...more.map((key) => key.token)];
  const session = await world.issuer.token(subject);
  return { subject, accountId, session, keys, nextChunk: 0, nextSnapshot: 0 };
}

/** One write of random size to the log and one snapshot, by random keys, each followed by its repetition. */
async function write(world: World, customer: Customer, device: string): Promise<void> {
  const headers = { "x-device-id": device };
  const chunks = Array.from(
    { length: randomInt(1, 5) },
    () => chunk(customer.nextChunk++, randomBytes(randomInt(1, 2_000))),
  );
  const sequence_number = customer.nextSnapshot++;
  const snapshot = snapshotBody({ sequence_number }, randomBytes(randomInt(1, 2_000)));
  for (const [path, body] of [["/replicate", replicateBody(...chunks)], ["/snapshot", snapshot]] as const) {
    for (let repetition = 0; repetition < 2; repetition++) {
      const answer = await world.request("POST", path, { token: anyKey(customer), body, headers });
      assert.equal(answer.status, 200, answer.text);
    }
  }
}

/** A few reads by random keys; returns how many of them count as recalls. */
async function read(world: World, customer: Customer): Promise<number> {
  const recalls = ["/replay?since=0", "/envelopes?limit=2", "/snapshot/agent/latest", "/snapshot/agent/0"];
  const chosen = recalls.filter(() => randomInt(2) === 0);
  for (const path of [...chosen, "/head", "/metadata", "/snapshot/agent/lineage"]) {
    assert.equal((await world.request("GET", path, { token: anyKey(customer) })).status, 200, path);
  }
  return chosen.length;
}

function anyKey({ keys }: Customer): string {
  return keys[randomInt(keys.length)]!;
}

async function usageOf(world: World, { session }: Customer): Promise<typeof NOTHING> {
  const { status, body } = await world.request("GET", "/billing/usage", { token: session });
  assert.equal(status, 200);
  return body.usage;
}

/** What the rows themselves say: a request that wrote to the log is a transaction of its own. */
async function recount(world: World, accountId: string) {
  const { rows } = await world.sql.query(
    `with blocks as (
       select e.xmin::text as request, octet_length(e.ciphertext) as bytes
         from app.log_entries e join app.logs l on l.id = e.log_id where l.owner_id = $1
     ), kept as (
       select s.byte_size as bytes
         from app.snapshots s join app.agents a on a.id = s.agent_ref
        where a.owner_id = $1 and s.status = 'confirmed'
     )
     select (select count(distinct request)::int from blocks) as sync_ops,
            ((select count(*) from blocks) + (select count(*) from kept))::int as store_ops,
            (select coalesce(sum(bytes), 0)::int from (table kept union all select bytes from blocks) x)
              as bytes_stored`,
    [accountId],
  );
  return rows[0];
}

/** Gives an account a subscription, or changes the one it has, as the payment provider's events will. */
async function subscribe(world: World, accountId: string, over: Record<string, unknown>): Promise<void> {
  const row: Record<string, unknown> = {
    account_id: accountId,
    plan: "pro",
    status: "active",
    quota_sync_ops: 10,
    quota_storage_bytes: 20,
    quota_subkeys: 30,
    quota_devices: UNLIMITED,
    seat_count: null,
    included_seats: null,
    polar_customer_id: `customer-${accountId}`,
    polar_subscription_id: `subscription-${accountId}`,
    current_period_start: "2026-01-15T10:00:00Z",
    current_period_end: "2100-01-01T00:00:00Z",
    ...over,
  };
  const columns = Object.keys(row);
  await world.sql.query(
    `insert into app.subscriptions (${columns}) values (${columns.map((_, i) => `$${i + 1}`)})
     on conflict (account_id) do update set (${columns}) = (${
      columns.map((column) => `excluded.${column}`)
    })`,
    Object.values(row),
  );
}
