/** Webhooks and their endpoints as they are, for `webhook_model_test.ts`: real requests, at times that the test sets. */

import assert from "node:assert/strict";
import { openWebhookSender } from "../../supabase/functions/_shared/platform/webhook_sender.ts";
import type { Database } from "../../supabase/functions/_shared/platform/mod.ts";
import { newKeyOf } from "./factories.ts";
import type { World } from "./harness.ts";
import { forgetPending, isSignedBy, type Received, type Receiver, startReceiver } from "./hooks.ts";
import { accountIdOf, newPerson, type Person } from "./people.ts";
import { CRON_SECRET, withJobs } from "./jobs.ts";
import {
  ANSWERS,
  type Behaviour,
  deliveriesOf,
  ENDPOINTS,
  OWNERS,
  type Sent,
  STOCK,
  type WebhookModel,
} from "./webhook_model_state.ts";

/** Long enough for an answer on any machine; and for endpoints that never answer, as short as may be. */
const PATIENCE_MS = 60_000;
const HASTE_MS = 20;
/** Where nobody listens; nothing is sent there either. */
const STOCK_URL = "http://127.0.0.1:9/";

type Service = Pick<World, "request" | "platform">;

/** The service and the endpoints, which all programs share. */
export interface Stage extends AsyncDisposable {
  world: World;
  service: Service;
  /** The same, but its workers die when they have sent something. */
  dying: Service;
  receivers: Receiver[];
  endpoints: Behaviour[];
  /** What endpoints were sent and nobody has looked at. */
  arrived: { endpoint: number; received: Received; answer: number | null }[];
  /** Waits until the service has done what it does after its answers. */
  settle(): Promise<void>;
}

/** Somebody who owns webhooks. */
interface Owner extends Person {
  accountId: string;
  /** What their agent has. */
  key: string;
  /** Ids of the keys that they made. */
  keyIds: string[];
}

/** One program's people, webhooks and deliveries; all but the people by their number in the model. */
export interface Real extends Stage {
  owners: Owner[];
  hooks: { id: string; secrets: string[] }[];
  deliveries: string[];
  bodies: Map<string, string>;
  sent: Sent[];
  /** The database's time when the clock was set last. */
  clockAt: string;
}

/** Opens the endpoints, and the service that sends to them. */
export function openStage(world: World): Stage {
  const work = new Set<Promise<void>>();
  const endpoints: Behaviour[] = [];
  const arrived: Stage["arrived"] = [];
  const closing = Promise.withResolvers<void>();
  /** Settled for each delivery to an endpoint that is slow, when the endpoint has read it. */
  const reading = new Map<string, PromiseWithResolvers<void>>();
  const receivers = Array.from({ length: ENDPOINTS }, (_, endpoint) =>
    startReceiver(async (received) => {
      const { status: answer, ...rest } = ANSWERS[endpoints[endpoint]!];
      arrived.push({ endpoint, received, answer });
      reading.get(received.id)?.resolve();
      if (answer === null) await closing.promise;
      const headers: Record<string, string> = "retryAfter" in rest
        ? { "retry-after": `${rest.retryAfter}` }
        : {};
      if (answer === 302) headers.location = receivers[(endpoint + 1) % ENDPOINTS]!.url;
      return new Response(null, { status: answer ?? 204, headers });
    }));
  const isSlow = (url: string) => endpoints[receivers.findIndex((each) => each.url === url)] === "slow";
  const patient = openWebhookSender({ allowPrivate: true, timeoutMs: PATIENCE_MS });
  const hasty = openWebhookSender({
    allowPrivate: true,
    timeoutMs: HASTE_MS,
    fetch(url, init) {
      const read = Promise.withResolvers<void>();
      reading.set(new Headers(init.headers).get("webhook-id")!, read);
      return hangUpOnceRead(url, init, read.promise);
    },
  });
  const parts = {
    hooks: {
      findFault: patient.findFault,
      send: (delivery: Parameters<typeof patient.send>[0]) =>
        (isSlow(delivery.url) ? hasty : patient).send(delivery),
    },
    background(promise: Promise<void>) {
      work.add(promise);
      promise.finally(() => work.delete(promise)).catch(() => {});
    },
  };
  return {
    world,
    service: withJobs(world, parts),
    dying: withJobs(world, { ...parts, db: withoutLastWords(world.platform.db) }),
    receivers,
    endpoints,
    arrived,
    async settle() {
      while (work.size > 0) await Promise.allSettled(work);
    },
    async [Symbol.asyncDispose]() {
      closing.resolve();
      for (const each of receivers) await each[Symbol.asyncDispose]();
    },
  };
}

/** Hangs up when the time is over, but not before the endpoint has read what it is sent: so it is certain that it has. */
async function hangUpOnceRead(url: string, init: RequestInit, read: Promise<void>): Promise<Response> {
  const hangingUp = new AbortController();
  const answer = fetch(url, { ...init, signal: hangingUp.signal });
  const isOver = new Promise((resolve) => init.signal!.addEventListener("abort", resolve));
  Promise.all([isOver, read]).then(() => hangingUp.abort());
  return await answer;
}

function withoutLastWords(db: Database): Database {
  return {
    rows: (name, args, bytes) => db.rows(name, args, bytes),
    call: (name, args) =>
      name === "finish_delivery" ? Promise.reject(new Error("died")) : db.call(name, args),
  };
}

/** New people, who have the webhooks that they have from the start. */
export async function newCast(stage: Stage, model: WebhookModel): Promise<Real> {
  await forgetPending(stage.world);
  stage.arrived.length = 0;
  stage.endpoints.splice(0, ENDPOINTS, ...model.endpoints);
  const owners = await Promise.all(STOCK.map((stock) => newOwner(stage.world, stock)));
  return { ...stage, owners, hooks: [], deliveries: [], bodies: new Map(), sent: [], clockAt: "" };
}

async function newOwner(world: World, stock: number): Promise<Owner> {
  const person = await newPerson(world);
  const accountId = await accountIdOf(world, person);
  await world.platform.db.call("grant_credits", {
    p_subject: person.subject,
    p_amount_milli: 1_000_000_000,
    p_actor: "test",
    p_note: "",
    p_reference: crypto.randomUUID(),
  });
  await world.sql.query(
    `insert into app.webhooks (account_id, url, events, secret, created_at)
     select $1::uuid, '${STOCK_URL}', '{subscription.updated}',
            sha256(convert_to($1::uuid::text || n, 'UTF8')), now() - make_interval(secs => n)
       from generate_series(1, $2::int) as n`,
    [accountId, stock],
  );
  return { ...person, accountId, key: (await newKeyOf(world, accountId)).token, keyIds: [] };
}

/** Calls the dispatcher. */
export function dispatch({ request }: Service) {
  return request("POST", "/webhooks/dispatch", { token: CRON_SECRET });
}

/**
 * Sets the clock: makes every time in the database as far from now as it is in the model. What the service had set was
 * held against the model before, to what chance and the time that tests take allow.
 */
export async function setClock(real: Real, model: WebhookModel): Promise<void> {
  const from = (time: number | null) => time === null ? null : time - model.now;
  const deliveries = model.deliveries.map(({ number, dueAt, leaseUntil, createdAt }) => ({
    id: real.deliveries[number],
    due: from(dueAt),
    lease: from(leaseUntil),
    created: from(createdAt),
  }));
  const hooks = model.hooks.map(({ number, failingSince, previousUntil, deletedAt }) => ({
    id: real.hooks[number]!.id,
    failing: from(failingSince),
    previous: from(previousUntil),
    deleted: from(deletedAt),
    busy: Math.max(0, ...deliveriesOf(model, number).map(({ leaseUntil }) => from(leaseUntil) ?? 0)),
  }));
  const { rows: [now] } = await real.world.sql.query(SET_CLOCK, [
    JSON.stringify(deliveries),
    JSON.stringify(hooks),
  ]);
  real.clockAt = now.at;
}

const SET_CLOCK = `
  with deliveries as (
    update app.webhook_deliveries d
       set next_attempt_at = now() + make_interval(secs => v.due),
           lease_expires_at = now() + make_interval(secs => v.lease),
           created_at = now() + make_interval(secs => v.created)
      from jsonb_to_recordset($1) as v (id uuid, due float8, lease float8, created float8)
     where d.id = v.id
  ),
  hooks as (
    update app.webhooks w
       set failing_since = now() + make_interval(secs => v.failing),
           deleted_at = now() + make_interval(secs => v.deleted),
           previous_expires_at = case when w.previous_secret is not null
             then now() + make_interval(secs => v.previous) end,
           busy_until = case when w.busy_until is not null then now() + make_interval(secs => v.busy) end
      from jsonb_to_recordset($2) as v (id uuid, failing float8, previous float8, deleted float8, busy float8)
     where w.id = v.id
  )
  select now()::text as at`;

const READ_HOOKS = `
  select w.id, w.state, w.disabled_reason, w.deleted_at is not null as is_deleted,
         extract(epoch from w.failing_since - $2::timestamptz)::float8 as failing,
         extract(epoch from clock_timestamp() - $2::timestamptz)::float8 as elapsed
    from app.webhooks w
   where w.account_id = any($1) and w.url <> '${STOCK_URL}'
   order by w.created_at`;

const READ_DELIVERIES = `
  select d.id, d.webhook_id, d.event_type, d.status, d.attempts, d.last_status, d.last_error,
         extract(epoch from d.next_attempt_at - $2::timestamptz)::float8 as due,
         extract(epoch from d.lease_expires_at - $2::timestamptz)::float8 as lease
    from app.webhook_deliveries d join app.webhooks w on w.id = d.webhook_id
   where w.account_id = any($1)
   order by d.seq`;

/** Everything that is kept, and everything that an endpoint was ever sent, is what the model says. */
export async function assertSame(real: Real, model: WebhookModel): Promise<void> {
  const { sql, mails } = real.world;
  const accounts = real.owners.map(({ accountId }) => accountId);
  const { rows: deliveries } = await sql.query(READ_DELIVERIES, [accounts, real.clockAt]);
  const { rows: hooks } = await sql.query(READ_HOOKS, [accounts, real.clockAt]);
  const elapsed = hooks[0]?.elapsed ?? 0;
  assert.deepEqual(
    hooks.map(({ id, is_deleted, state, disabled_reason }) => [
      id,
      is_deleted ? "deleted" : state,
      disabled_reason,
    ]),
    model.hooks.map(({ number, state, reason }) => [real.hooks[number]!.id, state, reason]),
    "webhooks",
  );
  for (const [i, { number, failingSince }] of model.hooks.entries()) {
    assertTime("failing since", hooks[i]!.failing, model, failingSince, failingSince, elapsed);
    const found = deliveries.filter(({ webhook_id }) => webhook_id === real.hooks[number]!.id);
    const kept = deliveriesOf(model, number);
    for (const [j, each] of kept.entries()) real.deliveries[each.number] ??= found[j]?.id;
    assert.deepEqual(
      found.map((each) => [
        each.id,
        each.event_type,
        each.status,
        each.attempts,
        each.last_status,
        each.last_error,
      ]),
      kept.map((each) => [
        real.deliveries[each.number],
        each.type,
        each.status,
        each.attempts,
        each.lastStatus,
        each.lastError,
      ]),
      `deliveries of ${number}`,
    );
    for (const [j, { status, dueFrom, dueUntil, leaseUntil }] of kept.entries()) {
      if (status !== "pending") continue;
      assertTime("due", found[j]!.due, model, dueFrom, dueUntil, elapsed);
      assertTime("leased until", found[j]!.lease, model, leaseUntil, leaseUntil, elapsed);
    }
  }
  assertReceived(real, model);
  for (let who = 0; who < OWNERS; who++) {
    const told = mails.filter(({ to, subject }) =>
      to === real.owners[who]!.email && subject.endsWith("was disabled")
    );
    assert.equal(told.length, model.owners[who]!.disabled, "a mail for each webhook that was disabled");
  }
}

function assertTime(
  what: string,
  found: number | null,
  { now }: WebhookModel,
  from: number | null,
  until: number | null,
  elapsed: number,
): void {
  if (from === null || until === null) return assert.equal(found, null, what);
  const isRight = found !== null && found > from - now - 0.01 && found < until - now + elapsed + 0.01;
  assert.ok(isRight, `${what}: in ${found} s instead of ${from - now} to ${until - now}`);
}

function assertReceived(real: Real, model: WebhookModel): void {
  for (const each of real.arrived.splice(0)) real.sent.push(readReceived(real, model, each));
  const spell = (sent: Sent[]) =>
    sent.map((each) =>
      JSON.stringify([each.endpoint, each.delivery, each.type, each.about, each.signers, each.answer])
    ).sort();
  assert.deepEqual(spell(real.sent), spell(model.sent), "what endpoints were sent");
}

/** What an endpoint was sent, in the numbers of the model; verified as a receiver does. */
function readReceived(
  { hooks, deliveries, bodies, owners }: Real,
  model: WebhookModel,
  { endpoint, received, answer }: Stage["arrived"][number],
): Sent {
  const delivery = deliveries.indexOf(received.id);
  assert.ok(delivery >= 0, `unknown webhook-id: ${received.id}`);
  assert.equal(received.body, bodies.get(received.id) ?? received.body, "each attempt has the same body");
  bodies.set(received.id, received.body);
  const { hook } = model.owed[delivery]!;
  const { secrets } = hooks[hook]!;
  const signers = [...secrets.keys()].filter((i) => isSignedBy(secrets[i]!, received));
  assert.equal(
    received.signature.split(" ").length,
    signers.length,
    "each signature is of a secret of the webhook",
  );
  const { type, data } = JSON.parse(received.body);
  const { owner } = model.hooks.find(({ number }) => number === hook)!;
  const about = type === "webhook.test"
    ? hooks.findIndex(({ id }) => id === data.webhook_id)
    : data.sequence_number ?? owners[owner]!.keyIds.indexOf(data.api_key_id);
  return { endpoint, delivery, type, about, signers, answer };
}
