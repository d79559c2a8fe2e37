/**
 * `deno task defects [R01 …] [--write] [--trust]`: does a test notice when a known defect is written back? Each defect is applied
 * to a copy of the repository, and the tests that should notice it are run there. `--write` puts the table of defect and
 * test into docs/reliability.md; `--trust` leaves out the run that shows that the tests pass without a defect.
 */

import { join } from "node:path";
import { print } from "../local/print.ts";
import { startPostgres } from "../local/postgres.ts";
import { changesOf } from "./defects/apply.ts";
import type { Defect } from "./defects/defect.ts";
import { DEFECTS, NOT_APPLICABLE } from "./defects/patches.ts";

const REPOSITORY = new URL("..", import.meta.url).pathname;
const REPORT = "docs/reliability.md";
const START = "<!-- defects:start -->";
const END = "<!-- defects:end -->";

interface Finding {
  defect: Defect;
  /** The first test that failed; undefined when none did. */
  caughtBy: string | undefined;
}

async function main(): Promise<number> {
  const asked = Deno.args.filter((argument) => !argument.startsWith("--"));
  const chosen = DEFECTS.filter(({ id }) => asked.length === 0 || asked.includes(id));
  await using parts = new AsyncDisposableStack();
  const copy = await copyRepository(parts);
  const databaseUrl = await bootPostgres(parts);

  const tests = [...new Set(chosen.flatMap((defect) => defect.tests))];
  const sound = Deno.args.includes("--trust") ? undefined : await runTests(copy, databaseUrl, tests);
  if (sound !== undefined) throw new Error(`Without any defect a test fails: ${sound}`);

  const findings: Finding[] = [];
  for (const defect of chosen) {
    const restore = await applyDefect(copy, defect);
    const caughtBy = await runTests(copy, databaseUrl, defect.tests);
    await restore();
    findings.push({ defect, caughtBy });
    print(
      `${defect.id} ${caughtBy === undefined ? "NOT NOTICED" : "noticed"}: ${defect.what}\n    ${
        caughtBy ?? ""
      }`,
    );
  }

  const missed = findings.filter(({ caughtBy }) => caughtBy === undefined);
  print(`\n${findings.length - missed.length} of ${findings.length} noticed`);
  if (Deno.args.includes("--write")) await writeTable(findings);
  return missed.length === 0 ? 0 : 1;
}

/** Everything that is in the repository or may be, beside the modules that are installed. */
async function copyRepository(parts: AsyncDisposableStack): Promise<string> {
  const copy = await Deno.makeTempDir({ prefix: "defects-" });
  parts.defer(() => Deno.remove(copy, { recursive: true }));
  const { stdout } = await new Deno.Command("git", {
    args: ["ls-files", "-z", "--cached", "--others", "--exclude-standard"],
    cwd: REPOSITORY,
  }).output();
  for (const path of new TextDecoder().decode(stdout).split("\0").filter(Boolean)) {
    await Deno.mkdir(join(copy, path, ".."), { recursive: true });
    await Deno.copyFile(join(REPOSITORY, path), join(copy, path));
  }
  await Deno.symlink(join(REPOSITORY, "node_modules"), join(copy, "node_modules"));
  return copy;
}

async function bootPostgres(parts: AsyncDisposableStack): Promise<string> {
  const dataDir = await Deno.makeTempDir({ prefix: "defects-postgres-" });
  parts.defer(() => Deno.remove(dataDir, { recursive: true }));
  // Root runs Postgres as another user, who must get in.
  await Deno.chmod(dataDir, 0o711);
  const postgres = await startPostgres({ dataDir, fsync: false, extraSettings: { max_connections: "300" } });
  parts.defer(() => postgres.destroy());
  return postgres.url;
}

/** Writes a defect into the copy. Returns what takes it back. */
async function applyDefect(copy: string, defect: Defect): Promise<() => Promise<void>> {
  const changes = await changesOf(copy, defect);
  for (const [path, { after }] of changes) await Deno.writeTextFile(path, after);
  return async () => {
    for (const [path, { before }] of changes) await Deno.writeTextFile(path, before);
  };
}

/** Runs tests in the copy. Returns the name of the first that failed, or undefined. */
async function runTests(copy: string, databaseUrl: string, tests: string[]): Promise<string | undefined> {
  const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-check", "tests/run.ts", "--fail-fast", ...tests],
    cwd: copy,
    env: { TEST_DATABASE_URL: databaseUrl, NO_COLOR: "1" },
    stdin: "null",
  }).output();
  if (success) return undefined;
  const output = new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr);
  const failed = /^(?:\.\/)?(tests\/\S+) => (.*?) \.\.\. FAILED/m.exec(output);
  if (failed !== null) return `\`${failed[1]}\`: ${failed[2]!.replace(/ \[[^\]]*\]$/, "")}`;
  const uncaught = /^\.\/(tests\/\S+) \(uncaught error\)[\s\S]*?AssertionError: (.*)/m.exec(output);
  if (uncaught !== null) return `\`${uncaught[1]}\`, afterwards: ${uncaught[2]}`;
  const alone = /^(.*?) \.\.\. FAILED/m.exec(output);
  return alone === null
    ? `the run itself: ${output.trim().split("\n").at(-1)}`
    : `\`${tests[0]}\`: ${alone[1]}`;
}

async function writeTable(findings: Finding[]): Promise<void> {
  const path = join(REPOSITORY, REPORT);
  const text = await Deno.readTextFile(path);
  const [start, end] = [text.indexOf(START), text.indexOf(END)];
  if (start < 0 || end < start) {
    throw new Error(`${REPORT} needs a line ${START} and, after it, a line ${END}`);
  }
  const rows = findings.map(({ defect, caughtBy }) =>
    `| ${defect.id} | ${defect.what} | ${(caughtBy ?? "**nothing**").replaceAll("|", "\\|")} |`
  );
  const others = Object.entries(NOT_APPLICABLE).map(([id, why]) => `| ${id} | does not apply | ${why} |`);
  const table = ["| | Defect | Noticed by |", "|---|---|---|", ...[...rows, ...others].sort()].join("\n");
  await Deno.writeTextFile(path, `${text.slice(0, start)}${START}\n\n${table}\n\n${text.slice(end)}`);
}

Deno.exit(await main());
