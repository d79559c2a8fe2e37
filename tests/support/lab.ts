/**
 * A place to break things in: the live service in a process of its own, over a real Postgres behind a wire proxy and
 * over object storage that fails on demand, with the mail and payment providers beside it. Whatever happens to the
 * process, the world outlives it: tests prepare and look at things through the world, and break the lab.
 */

import { PRODUCTS, SECRET as POLAR_SECRET, TOKEN as POLAR_TOKEN } from "./polar.ts";
import { CRON_SECRET } from "./everything.ts";
import type { Failpoint } from "./failpoints.ts";
import { MAIL_SETTINGS } from "./jobs.ts";
import type { Answer, RequestOptions, World } from "./harness.ts";
import type { Armed } from "./lab_child.ts";
import { startStorageServer, type StorageServer } from "./storage_server.ts";
import { startWireProxy, type WireProxy } from "./wire_proxy.ts";

/** The running laboratory. */
export interface Lab extends AsyncDisposable {
  world: World;
  wire: WireProxy;
  storage: StorageServer;
  /** Mails that the provider took, newest last. */
  mails: { to: string[]; text: string }[];
  /**
   * Sends a request to the process, or to the next one when that is being started; undefined when the connection broke
   * before there was an answer.
   */
  request(method: string, path: string, options?: RequestOptions): Promise<Answer | undefined>;
  /** The same for the vault interface, which the process serves as well. */
  requestVault(method: string, path: string, options?: RequestOptions): Promise<Answer | undefined>;
  /** Makes something happen at a failpoint. */
  arm(point: Failpoint, action: Armed["action"], times?: number): Promise<void>;
  /** Lets go of whoever is held, and disarms. */
  lift(): Promise<void>;
  /** How many calls are held at the moment. */
  held(): Promise<number>;
  /** Waits until the process does nothing any more, also in the background. */
  quiet(): Promise<void>;
  /** Failpoints reached since `forget`, in order. */
  points(): Promise<Failpoint[]>;
  forget(): Promise<void>;
  /** Whether the process ends by itself within a moment. */
  hasDied(): Promise<boolean>;
  /** Ends the process at once, if it still runs, and starts another. */
  restart(): Promise<void>;
  /** Process id of the service. */
  pid(): number;
  /** Bytes of memory that the process holds. */
  memory(): Promise<number>;
}

interface Child {
  process: Deno.ChildProcess;
  base: string;
  control: string;
}

const BASE_PATH = "/functions/v1/v2-agent-state";
const VAULT_PATH = "/functions/v1/vault";
const CHILD = new URL("lab_child.ts", import.meta.url).pathname;
/** No request takes longer, whatever is broken: database calls give up after 20 s, three times. */
const PATIENCE_MS = 90_000;
const DEATH_MS = 3_000;

/** Opens a laboratory on a world's database. `env` changes what the process is configured with. */
export async function openLab(world: World, env: Record<string, string> = {}): Promise<Lab> {
  const wire = startWireProxy(world.databaseUrl);
  const storage = await startStorageServer();
  const mails: Lab["mails"] = [];
  const outside = startOutside(mails);
  const databaseUrl = `${wire.url}?options=${encodeURIComponent("-c role=service_role")}`;
  const environment: Record<string, string> = {
    SUPABASE_URL: storage.url,
    SUPABASE_SERVICE_ROLE_KEY: "sb_secret_of_the_laboratory",
    AGENT_STATE_DB_URL: databaseUrl,
    AGENT_STATE_DB_POOL: "8",
    SESSION_JWKS_URL: world.issuer.settings.jwksUrl,
    SESSION_ISSUER: world.issuer.settings.issuer!,
    SESSION_AUDIENCE: world.issuer.settings.audience!,
    CRON_SECRET,
    WEBHOOK_ALLOW_PRIVATE: "true",
    POLAR_API_URL: outside.url,
    POLAR_PRODUCTS: JSON.stringify(PRODUCTS),
    BILLING_RETURN_ORIGINS: "https://app.example",
    POLAR_ACCESS_TOKEN: POLAR_TOKEN,
    POLAR_WEBHOOK_SECRET: POLAR_SECRET,
    RESEND_API_URL: outside.url,
    RESEND_API_KEY: "re_of_the_laboratory",
    UNSUBSCRIBE_SECRET: MAIL_SETTINGS.linkSecrets.join(" "),
    ...env,
  };
  let child = await spawn(environment);
  // The next process is started before it is needed: a crash costs no waiting.
  let spare = spawn(environment);

  let restarting: Promise<void> | undefined;

  async function control(path: string, body?: unknown): Promise<unknown> {
    const response = await fetch(child.control + path, {
      method: body === undefined ? "GET" : "POST",
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    return text === "" ? undefined : JSON.parse(text);
  }

  async function request(method: string, path: string, options?: RequestOptions) {
    await restarting;
    return await sendTo(child.base, method, path, options);
  }

  return {
    world,
    wire,
    storage,
    mails,
    request,
    requestVault: (method, path, options) => request(method, VAULT_PATH + path, options),
    arm: async (point, action, times = Infinity) => {
      const armed: Armed = { point, action, times: Math.min(times, Number.MAX_SAFE_INTEGER) };
      await control("/arm", armed);
    },
    lift: async () => void await control("/lift", {}),
    held: async () => await control("/held") as number,
    quiet: async () => void await control("/quiet"),
    points: async () => await control("/points") as Failpoint[],
    forget: async () => void await control("/reset", {}),
    pid: () => child.process.pid,
    memory: async () => await control("/memory") as number,
    hasDied: () =>
      Promise.race([
        child.process.status.then(() => true),
        new Promise<boolean>((resolve) => setTimeout(resolve, DEATH_MS, false)),
      ]),
    restart() {
      return restarting = (async () => {
        await end(child);
        child = await spare;
        spare = spawn(environment);
      })();
    },
    async [Symbol.asyncDispose]() {
      await Promise.all([end(child), spare.then(end)]);
      await wire[Symbol.asyncDispose]();
      await storage[Symbol.asyncDispose]();
      await outside[Symbol.asyncDispose]();
    },
  };
}

async function sendTo(
  base: string,
  method: string,
  path: string,
  { token, body, headers = {} }: RequestOptions = {},
): Promise<Answer | undefined> {
  const sent = body === undefined || typeof body === "string" || body instanceof Uint8Array
    ? body
    : JSON.stringify(body);
  try {
    const response = await fetch(path.startsWith("/functions/") ? new URL(path, base) : base + path, {
      method,
      headers: { ...(token === undefined ? {} : { authorization: `Bearer ${token}` }), ...headers },
      ...(sent === undefined ? {} : { body: sent as BodyInit }),
      signal: AbortSignal.timeout(PATIENCE_MS),
    });
    const text = await response.text();
    return { status: response.status, text, body: parseJson(text), headers: response.headers };
  } catch (error) {
    // A request that nobody ever answers is a fault of its own, not a broken connection.
    if (error instanceof DOMException) throw error;
    return undefined;
  }
}

/** The mail and the payment provider: they take everything. */
function startOutside(mails: Lab["mails"]): AsyncDisposable & { url: string } {
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async (request) => {
    const { pathname } = new URL(request.url);
    if (pathname === "/emails") {
      mails.push(await request.json());
      return Response.json({ id: crypto.randomUUID() });
    }
    await request.body?.cancel();
    const link = "https://polar.example/";
    return Response.json({ id: pathname.split("/").at(-1), url: link, customer_portal_url: link });
  });
  return {
    url: `http://127.0.0.1:${server.addr.port}`,
    [Symbol.asyncDispose]: () => server.shutdown(),
  };
}

async function spawn(env: Record<string, string>): Promise<Child> {
  const process = new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-check", CHILD],
    env: { ...env, NO_COLOR: "1" },
    stdin: "null",
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
  const reader = process.stdout.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  while (!text.includes("\n")) {
    const { value, done } = await reader.read();
    if (done) throw new Error(`The service of the laboratory did not start: ${text}`);
    text += value;
  }
  // The log is of no interest, but a full pipe would stop the process.
  (async () => {
    while (!(await reader.read()).done);
  })().catch(() => {});
  const { port, control } = JSON.parse(text.slice(0, text.indexOf("\n")));
  return { process, base: `http://127.0.0.1:${port}${BASE_PATH}`, control: `http://127.0.0.1:${control}` };
}

async function end({ process }: Child): Promise<void> {
  try {
    process.kill("SIGKILL");
  } catch {
    // It has ended already.
  }
  await process.status;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
