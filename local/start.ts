/** `deno task start`: runs the whole service on this machine until it is told to stop. */

import { DataDirInUse } from "./data_dir.ts";
import { watchLauncher } from "./launcher.ts";
import { print, printError } from "./print.ts";
import { PortInUse, type Stack, startStack } from "./stack.ts";

const SAME_SIGNAL_MS = 1000;

const env = Deno.env.toObject();

async function main(): Promise<void> {
  const port = Number(env.PORT || "8787");
  if (!Number.isInteger(port) || port < 0 || port > 65535) {
    return fail(`PORT is not a port number: ${env.PORT}`);
  }
  const publicUrl = env.PUBLIC_URL?.replace(/\/+$/, "");
  if (publicUrl && !URL.canParse(publicUrl)) return fail(`PUBLIC_URL is not a URL: ${env.PUBLIC_URL}`);
  const dataDir = env.DATA_DIR || ".data";

  const stopRequested = listenForStop();
  print(`Starting on ${dataDir}${env.DATABASE_URL ? " with the Postgres of DATABASE_URL" : ""} …`);
  let stack: Stack;
  try {
    stack = await startStack({
      dataDir,
      port,
      env,
      say: print,
      schedule: true,
      ...(env.HOST ? { hostname: env.HOST } : {}),
      ...(env.DATABASE_URL ? { databaseUrl: env.DATABASE_URL } : {}),
      ...(publicUrl ? { publicUrl } : {}),
    });
  } catch (error) {
    if (error instanceof DataDirInUse || error instanceof PortInUse) return fail(error.message);
    return fail(error instanceof Error ? `Cannot start. ${error.message}` : String(error));
  }
  const base = `${stack.url}/functions/v1/v2-agent-state`;
  print(`\n${base}\n\nTry it:\n\n${await exampleCurl(base)}\n`);
  await stopRequested;
  print("Stopping …");
  await stack.stop();
  Deno.exit(0);
}

/**
 * Resolves at the first SIGTERM or SIGINT, or when the npx that launched us is gone; another signal, sent later,
 * ends the process at once.
 */
function listenForStop(): Promise<void> {
  return new Promise((resolve) => {
    watchLauncher(resolve);
    let askedAt: number | undefined;
    for (const signal of ["SIGTERM", "SIGINT"] as const) {
      Deno.addSignalListener(signal, () => {
        const now = performance.now();
        // Ctrl-C reaches the whole process group, and `deno task` passes it on as well: that is one request.
        if (askedAt !== undefined && now - askedAt > SAME_SIGNAL_MS) Deno.exit(1);
        askedAt ??= now;
        resolve();
      });
    }
  });
}

/** A request that the service answers with 200: one block of a new project's replication log. */
async function exampleCurl(base: string): Promise<string> {
  const block = new TextEncoder().encode("opaque bytes, encrypted by the client");
  const blockHash = await sha256(block);
  const root = await sha256(new Uint8Array([...new Uint8Array(32), ...blockHash]));
  const body = JSON.stringify({
    chunks: [{
      sequence_number: 0,
      block_hash: hex(blockHash),
      ciphertext_b64: btoa(String.fromCharCode(...block)),
    }],
    merkle_root: hex(root),
  });
  return [
    `curl -X POST ${base}/replicate`,
    `  -H 'authorization: Bearer sov_proj_${crypto.randomUUID()}'`,
    `  -H 'content-type: application/json'`,
    `  -d '${body}'`,
  ].join(" \\\n");
}

async function sha256(bytes: Uint8Array<ArrayBuffer>): Promise<Uint8Array> {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
}

function hex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function fail(message: string): never {
  printError(message);
  Deno.exit(1);
}

await main();
