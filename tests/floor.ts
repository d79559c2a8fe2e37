/**
 * Checks the functions on the hosted runtime's Deno: `deno task test:floor`.
 *
 * Type-checks every entry point, runs the pure tests, and does the main job over HTTP on a real Postgres. Deno 2.1
 * cannot read this repository's lock file and does not know all that is in its `deno.json`, so it gets neither: a
 * function's own `deno.json` holds everything that the function needs.
 */

import { join } from "node:path";
import { print, printError } from "../local/print.ts";
import { withMigratedDatabase } from "./support/throwaway.ts";

/** What the hosted runtime speaks. */
const FLOOR = "2.1.4";
const REPOSITORY = join(import.meta.dirname!, "..");
const FUNCTIONS = "supabase/functions";
const ISOLATED = ["--no-lock", "--node-modules-dir=none"];
const MAIN_FUNCTION = `${FUNCTIONS}/v2-agent-state/deno.json`;

interface Step {
  name: string;
  args: string[];
  env?: Record<string, string>;
}

async function main(): Promise<number> {
  const started = performance.now();
  const lock = await readLock();
  await requireFloor();
  const failed = [
    ...await runSteps(listChecks()),
    ...await runSteps([{
      name: "pure tests",
      // Their types are checked on today's Deno; some packages' types ask for a newer TypeScript than the floor's.
      args: [
        "test",
        ...ISOLATED,
        "--config",
        MAIN_FUNCTION,
        "--no-check",
        "-A",
        "--parallel",
        "tests/domain/",
      ],
    }]),
    ...await withMigratedDatabase((url) =>
      runSteps([{
        name: "main job over HTTP",
        args: ["run", ...ISOLATED, "--config", MAIN_FUNCTION, "--no-check", "-A", "tests/floor/smoke.ts"],
        env: { FLOOR_DATABASE_URL: url },
      }])
    ),
  ];
  if (await readLock() !== lock) failed.push("deno.lock was rewritten");
  const seconds = ((performance.now() - started) / 1000).toFixed(1);
  for (const name of failed) printError(`floor: FAILED ${name}`);
  print(`floor: ${failed.length === 0 ? "everything works" : "not fit for"} on Deno ${FLOOR} (${seconds} s)`);
  return failed.length === 0 ? 0 : 1;
}

function listChecks(): Step[] {
  const names = [...Deno.readDirSync(join(REPOSITORY, FUNCTIONS))].map(({ name }) => name).sort();
  return names.filter((name) => !name.startsWith("_")).map((name) => ({
    name: `types of ${name}`,
    args: [
      "check",
      ...ISOLATED,
      "--config",
      `${FUNCTIONS}/${name}/deno.json`,
      `${FUNCTIONS}/${name}/index.ts`,
    ],
  }));
}

/** Runs steps one after another, all of them, and returns the names of those that failed. */
async function runSteps(steps: readonly Step[]): Promise<string[]> {
  const failed: string[] = [];
  for (const step of steps) {
    const { code, text } = await runFloor(step);
    print(`floor: ${code === 0 ? "ok" : "FAILED"}  ${step.name}`);
    if (code === 0) continue;
    printError(text);
    failed.push(step.name);
  }
  return failed;
}

/** Runs Deno 2.1 from npm, and returns all that it said. */
async function runFloor({ args, env = {} }: Omit<Step, "name">): Promise<{ code: number; text: string }> {
  const output = await new Deno.Command("npx", {
    args: ["-y", `deno@${FLOOR}`, ...args],
    cwd: REPOSITORY,
    env: {
      NO_COLOR: "1",
      // Today's Deno trusts what the machine trusts; this one has to be told.
      DENO_TLS_CA_STORE: Deno.env.get("DENO_TLS_CA_STORE") ?? "system,mozilla",
      ...env,
    },
    stdin: "null",
  }).output();
  const decoder = new TextDecoder();
  return { code: output.code, text: decoder.decode(output.stdout) + decoder.decode(output.stderr) };
}

/** A pass on another version would prove nothing. */
async function requireFloor(): Promise<void> {
  const { code, text } = await runFloor({ args: ["--version"] });
  if (code === 0 && text.includes(`deno ${FLOOR} `)) return;
  throw new Error(`Deno ${FLOOR} cannot be run with npx:\n${text}`);
}

async function readLock(): Promise<string | undefined> {
  try {
    return await Deno.readTextFile(join(REPOSITORY, "deno.lock"));
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}

Deno.exit(await main());
