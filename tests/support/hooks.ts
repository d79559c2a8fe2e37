/** Webhooks for tests: receivers that behave in every way, events queued as the service's own functions do. */

import { Webhook } from "standardwebhooks";
import type { World } from "./harness.ts";
import { accountIdOf, newPerson, type Person } from "./people.ts";

/** Settings that deliveries need. */
export const SETTINGS = { appUrl: undefined };

/** What a receiver was sent. */
export interface Received {
  id: string;
  timestamp: number;
  signature: string;
  headers: Headers;
  body: string;
}

/** A receiver on this machine. */
export interface Receiver extends AsyncDisposable {
  url: string;
  received: Received[];
  /** How it answers; may be replaced at any time. */
  answer(received: Received): Response | Promise<Response>;
}

/** Starts a receiver that takes everything, until told otherwise. */
export function startReceiver(
  answer: Receiver["answer"] = () => new Response(null, { status: 204 }),
): Receiver {
  const abort = new AbortController();
  const server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, signal: abort.signal, onListen() {} },
    async (request) => {
      const each = {
        id: request.headers.get("webhook-id") ?? "",
        timestamp: Number(request.headers.get("webhook-timestamp")),
        signature: request.headers.get("webhook-signature") ?? "",
        headers: request.headers,
        body: await request.text(),
      };
      receiver.received.push(each);
      return await receiver.answer(each);
    },
  );
  const receiver: Receiver = {
    url: `http://127.0.0.1:${server.addr.port}/hook`,
    received: [],
    answer,
    async [Symbol.asyncDispose]() {
      abort.abort();
      await server.finished;
    },
  };
  return receiver;
}

/** A registered webhook, and whose it is. */
export interface Hook extends Person {
  accountId: string;
  id: string;
  secret: string;
}

/** Registers a webhook, of somebody new unless told otherwise. */
export async function newHook(
  world: World,
  url: string,
  { person, events = ["*"] }: { person?: Person; events?: string[] } = {},
): Promise<Hook> {
  const owner = person ?? await newPerson(world);
  const { status, body } = await world.request("POST", "/webhooks", {
    token: owner.token,
    body: { url, events },
  });
  if (status !== 201) throw new Error(JSON.stringify(body));
  return { ...owner, accountId: await accountIdOf(world, owner), id: body.id, secret: body.secret };
}

/** Writes an event as the service's own functions do. */
export async function emit(world: World, accountId: string, type = "team.created", data: object = {}) {
  await world.sql.query("select app.emit_event($1, $2, $3::jsonb)", [accountId, type, JSON.stringify(data)]);
}

/** The deliveries of a webhook, oldest first. */
// deno-lint-ignore no-explicit-any
export async function deliveriesOf(world: World, webhookId: string): Promise<any[]> {
  const sql = "select * from app.webhook_deliveries where webhook_id = $1 order by seq";
  return (await world.sql.query(sql, [webhookId])).rows;
}

// deno-lint-ignore no-explicit-any
export async function hookRow(world: World, webhookId: string): Promise<any> {
  return (await world.sql.query("select * from app.webhooks where id = $1", [webhookId])).rows[0];
}

/** Lets the time pass that deliveries of a webhook have to wait, leases included. */
export async function makeDue(world: World, webhookId: string): Promise<void> {
  await world.sql.query(
    `update app.webhook_deliveries
        set next_attempt_at = least(next_attempt_at, now() - interval '1 s'),
            lease_expires_at = case when lease_expires_at is not null then now() - interval '1 s' end
      where webhook_id = $1 and status = 'pending'`,
    [webhookId],
  );
  await world.sql.query(
    "update app.webhooks set busy_until = now() - interval '1 s' where id = $1 and busy_until is not null",
    [webhookId],
  );
}

/** Takes what other tests left pending out of the way. */
export async function forgetPending(world: World): Promise<void> {
  await world.sql.query("update app.webhook_deliveries set status = 'canceled' where status = 'pending'");
}

/** Whether a delivery carries a signature by this secret; the package throws when it does not. */
export function isSignedBy(secret: string, { headers, body }: Received): boolean {
  try {
    new Webhook(secret).verify(body, Object.fromEntries(headers));
    return true;
  } catch {
    return false;
  }
}
