/**
 * `deno task sign-event KIND --user U …`: sends the running stack an event as Polar would, signed with the
 * `standardwebhooks` package, and prints the answer. With `--print` it prints the curl instead.
 */

import { parseArgs } from "node:util";
import { Webhook } from "standardwebhooks";
import { findRunningStack } from "./data_dir.ts";
import { localPolarSecret } from "./secrets.ts";
import { print, printError } from "./print.ts";

const USAGE = `Usage: deno task sign-event KIND --user U [--product P] [--plan PLAN] [--seats N]
         [--credits MILLI] [--id OBJECT] [--print]
KIND is subscription.created, .active, .updated, .canceled or .revoked, order.paid or order.refunded.
The subscription, or order, is U's own one unless --id names another.`;
const MONTH_MS = 30 * 24 * 3_600_000;

async function main(): Promise<void> {
  const options = readArguments();
  const dataDir = Deno.env.get("DATA_DIR") || ".data";
  const stack = await findRunningStack(dataDir);
  if (stack === undefined) return fail(`Nothing is running on ${dataDir}. Run deno task start first.`);

  const url = `${stack.url}/functions/v1/v2-agent-state/billing/webhook`;
  const body = JSON.stringify(makeEvent(options));
  const [secret] = (Deno.env.get("POLAR_WEBHOOK_SECRET") || await localPolarSecret(dataDir)).split(/\s+/);
  const id = `msg_${crypto.randomUUID()}`;
  const now = new Date();
  const headers = {
    "content-type": "application/json",
    "webhook-id": id,
    "webhook-timestamp": String(Math.floor(now.getTime() / 1000)),
    "webhook-signature": new Webhook(secret!, { format: "raw" }).sign(id, now, body),
  };
  if (options.print) {
    const lines = Object.entries(headers).map(([name, value]) => `  -H '${name}: ${value}'`);
    return print([`curl -X POST ${url}`, ...lines, `  -d '${body.replaceAll("'", "'\\''")}'`].join(" \\\n"));
  }
  const answer = await fetch(url, { method: "POST", headers, body });
  print(`${answer.status} ${await answer.text()}`);
  if (!answer.ok) Deno.exit(1);
}

type Options = ReturnType<typeof readArguments>;

/** An event with the fields that the service reads, in the provider's own shape. */
function makeEvent({ kind, user, product, plan, seats, credits, id }: Options): object {
  const now = new Date();
  const metadata = { ...(plan ? { plan } : {}), ...(credits ? { credits_milli: credits } : {}) };
  const object = {
    id: id ?? `local-${kind.split(".")[0]}-${fingerprint(user)}`,
    created_at: "2026-01-01T00:00:00Z",
    modified_at: now.toISOString(),
    customer_id: `local-customer-${fingerprint(user)}`,
    customer: { external_id: user },
    product_id: product,
    product: { id: product, metadata },
  };
  const ended = kind === "subscription.canceled" || kind === "subscription.revoked";
  const data = kind.startsWith("order.") ? { ...object, status: kind.slice("order.".length) } : {
    ...object,
    status: ended ? "canceled" : "active",
    seats: seats === undefined ? null : Number(seats),
    current_period_start: now.toISOString(),
    current_period_end: new Date(now.getTime() + MONTH_MS).toISOString(),
  };
  return { type: kind, timestamp: now.toISOString(), data };
}

/** A user's name as an id may be spelled. */
function fingerprint(user: string): string {
  return new TextEncoder().encode(user).toHex().slice(0, 64);
}

function readArguments() {
  try {
    const { positionals, values } = parseArgs({
      args: Deno.args,
      allowPositionals: true,
      options: {
        user: { type: "string" },
        product: { type: "string", default: "local-product" },
        plan: { type: "string" },
        seats: { type: "string" },
        credits: { type: "string" },
        id: { type: "string" },
        print: { type: "boolean", default: false },
      },
    });
    const [kind, ...rest] = positionals;
    if (!kind || rest.length > 0) throw new Error("Name one kind of event.");
    if (!values.user) throw new Error("Name a user.");
    return { ...values, kind, user: values.user };
  } catch (error) {
    return fail(`${error instanceof Error ? error.message : error}\n${USAGE}`);
  }
}

function fail(message: string): never {
  printError(message);
  Deno.exit(1);
}

await main();
