/**
 * The test runner: boots a throw-away Postgres, runs `deno test`, and says how many tests passed.
 *
 * `deno task test [--generated] [files and flags of deno test]`. TEST_DATABASE_URL names a Postgres to use instead.
 * A run of everything also fails when the reference lists an answer that no test has got.
 */

import { migrate } from "../local/migrate.ts";
import { startPostgres } from "../local/postgres.ts";
import { print, printError } from "../local/print.ts";
import { listUnseen, SEEN_DIRECTORY } from "./support/books.ts";
import { dropTemplate, makeTemplate } from "./support/database.ts";

const REPOSITORY = new URL("..", import.meta.url).pathname;

async function main(): Promise<number> {
  const args = Deno.args.filter((argument) => argument !== "--generated");
  const checkGenerated = args.length < Deno.args.length;
  await using parts = new AsyncDisposableStack();
  const interrupted = new AbortController();
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    Deno.addSignalListener(signal, () => interrupted.abort());
  }

  const given = Deno.env.get("TEST_DATABASE_URL");
  const url = given || await bootPostgres(parts);
  await makeTemplate(url, migrate);
  if (given) parts.defer(() => dropTemplate(url));

  const whole = !args.some(isPath) && !args.some((argument) => argument.startsWith("--filter"));
  const seen = await Deno.makeTempDir({ prefix: "agent-state-seen-" });
  parts.defer(() => Deno.remove(seen, { recursive: true }));
  const child = new Deno.Command(Deno.execPath(), {
    args: ["test", "-A", "--parallel", "--no-check", ...(args.some(isPath) ? args : [...args, "tests/"])],
    cwd: REPOSITORY,
    env: {
      TEST_DATABASE_URL: url,
      EXPERIMENTAL_STORAGE: "1",
      DO_NOT_TRACK: "1",
      LITE_TELEMETRY: "0",
      [SEEN_DIRECTORY]: seen,
      ...(checkGenerated ? { CHECK_GENERATED: "1" } : {}),
    },
    stdin: "null",
    stdout: "piped",
    signal: interrupted.signal,
  }).spawn();
  const summary = findSummary(await passOn(child.stdout));
  const { code } = await child.status;
  if (code !== 0 && summary.failed === 0) summary.failed = 1;
  const unseen = whole && code === 0 ? await listUnseen(seen) : [];
  for (const answer of unseen) printError(`The reference lists an answer that no test has seen: ${answer}`);
  summary.failed += unseen.length;
  await parts.disposeAsync();
  print(`${summary.passed} passed, ${summary.failed} failed`);
  return code || Number(unseen.length > 0);
}

/** Boots Postgres in a directory that goes away with it. */
async function bootPostgres(parts: AsyncDisposableStack): Promise<string> {
  const dataDir = await Deno.makeTempDir({ prefix: "agent-state-test-" });
  parts.defer(() => Deno.remove(dataDir, { recursive: true }));
  // Root runs Postgres as another user, who must get in.
  await Deno.chmod(dataDir, 0o711);
  const postgres = await startPostgres({
    dataDir,
    fsync: false,
    log: printError,
    extraSettings: { max_connections: "300" },
  });
  parts.defer(() => postgres.destroy());
  return postgres.url;
}

/** Copies the child's output to ours as it comes, and returns it whole. */
async function passOn(stream: ReadableStream<Uint8Array>): Promise<string> {
  let text = "";
  for await (const part of stream.pipeThrough(new TextDecoderStream())) {
    text += part;
    for (let rest = new TextEncoder().encode(part); rest.length > 0;) {
      rest = rest.subarray(Deno.stdout.writeSync(rest));
    }
  }
  return text;
}

/** Reads the last `ok | 12 passed (3 steps) | 0 failed (1s)`. */
function findSummary(output: string): { passed: number; failed: number } {
  // deno-lint-ignore no-control-regex
  const plain = output.replaceAll(/\u001b\[[0-9;]*m/g, "");
  const lines = plain.split("\n").filter((line) => /^(ok|FAILED) \| [0-9]+ passed/.test(line));
  const [, passed, failed] = /\| ([0-9]+) passed.*?\| ([0-9]+) failed/.exec(lines.at(-1) ?? "") ?? [];
  return { passed: Number(passed ?? 0), failed: Number(failed ?? 0) };
}

function isPath(argument: string): boolean {
  return !argument.startsWith("-") && (argument.includes("/") || argument.endsWith(".ts"));
}

Deno.exit(await main());
