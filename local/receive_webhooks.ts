/**
 * A receiver of webhooks to try them with: `deno task receive-webhooks SECRET [--port 8788] [--once]`.
 *
 * Verifies each delivery with the `standardwebhooks` package, as any receiver should, prints it, and answers 204; what
 * cannot be verified gets 401. Listens on this machine alone. `--once` stops after the first that is verified.
 */

import { parseArgs } from "node:util";
import { Webhook, WebhookVerificationError } from "standardwebhooks";
import { print, printError } from "./print.ts";

const USAGE =
  "Usage: deno task receive-webhooks SECRET [--port 8788] [--once]   (SECRET: whsec_… of POST /webhooks)";

function main(): void {
  const { secret, port, once } = readArguments();
  const webhook = new Webhook(secret);
  const server = Deno.serve({
    hostname: "127.0.0.1",
    port,
    onListen: ({ port }) => print(`Waiting for deliveries on http://127.0.0.1:${port}/`),
  }, async (request) => {
    const verified = await receive(webhook, request);
    // Shutting down lets this answer out first.
    if (verified && once) server.shutdown();
    return new Response(null, { status: verified ? 204 : 401 });
  });
}

function readArguments(): { secret: string; port: number; once: boolean } {
  try {
    const { values, positionals } = parseArgs({
      args: Deno.args,
      options: { port: { type: "string", default: "8788" }, once: { type: "boolean", default: false } },
      allowPositionals: true,
    });
    const [secret = "", ...rest] = positionals;
    const port = Number(values.port);
    const isPort = Number.isInteger(port) && port >= 0 && port <= 65_535;
    if (isPort && secret.startsWith("whsec_") && rest.length === 0) {
      return { secret, port, once: values.once };
    }
  } catch {
    // An option that there is none of.
  }
  printError(USAGE);
  Deno.exit(1);
}

/** Prints a delivery, and says whether it is what it claims to be. */
async function receive(webhook: Webhook, request: Request): Promise<boolean> {
  const body = await request.text();
  const id = oneLine(request.headers.get("webhook-id") ?? "without an id");
  try {
    // A plain object: the package does not look into `Headers`.
    webhook.verify(body, Object.fromEntries(request.headers), { jsonParse: false });
  } catch (error) {
    if (!(error instanceof WebhookVerificationError)) throw error;
    print(`✗ ${id}: ${error.message}`);
    return false;
  }
  print(`✓ ${id} ${oneLine(body)}`);
  return true;
}

/** A terminal gets no control character. */
function oneLine(text: string): string {
  return text.replace(/\p{Cc}+/gu, " ");
}

main();
