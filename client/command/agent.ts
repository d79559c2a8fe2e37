/** The command: `agent snapshot FILE | restore | push DIR | pull DIR | status | verify`. Runs on Node and Deno. */

import process from "node:process";
import { parseArgs } from "node:util";
import { AgentStateError } from "../errors.ts";
import { restoreFile, snapshotFile } from "./checkpoint.ts";
import { type Home, openHome, UsageError } from "./home.ts";
import { pull } from "./pull.ts";
import { push } from "./push.ts";
import { status, verify } from "./report.ts";
import { openTerminal, type Terminal } from "./terminal.ts";

const USAGE = `Usage: agent COMMAND [options]

  snapshot FILE           store a file as the agent's next checkpoint
  restore                 write the latest checkpoint's file  [--sequence N] [--output FILE]
  push DIR                bring the log up to a folder        [--folder NAME]
  pull DIR                write a folder's newest files       [--folder NAME]
  status                  where the log and the snapshots stand
  verify                  read everything back and check it

Options:
  --url URL      the service          (AGENT_STATE_URL; http://127.0.0.1:8787/functions/v1/v2-agent-state)
  --token TOKEN  its credential       (AGENT_STATE_TOKEN; on first use a project token is made)
  --home DIR     key, token, outbox   (AGENT_STATE_HOME; ~/.agent-state)
  --agent ID     whose snapshots      (default)
  --force        replace files that differ
  --json         one line of JSON instead of text`;

const FAILED = 1;
const MISUSED = 2;
const OPTIONS = {
  url: { type: "string" },
  token: { type: "string" },
  home: { type: "string" },
  agent: { type: "string", default: "default" },
  folder: { type: "string" },
  sequence: { type: "string" },
  output: { type: "string" },
  force: { type: "boolean", default: false },
  json: { type: "boolean", default: false },
  help: { type: "boolean", default: false },
} as const;

type Values = ReturnType<typeof parse>["values"];
type Result = Record<string, unknown>;

interface Command {
  /** What its one argument is called; absent when it takes none. */
  argument?: string;
  run(home: Home, argument: string, values: Values, terminal: Terminal): Promise<Result>;
  describe(result: Result): string;
}

const COMMANDS: Record<string, Command> = {
  snapshot: {
    argument: "FILE",
    run: (home, file, { agent }) => snapshotFile(home, agent, file),
    describe: (done) =>
      `Stored ${done.name} as snapshot ${done.sequence_number} of ${done.agent}: ${done.storage_path}`,
  },
  restore: {
    run: (home, _, { agent, sequence, output, force }) =>
      restoreFile(home, agent, { sequence: readSequence(sequence), output, force }),
    describe: (done) =>
      `Restored snapshot ${done.sequence_number} of ${done.agent}: ${done.file}, ${done.bytes} bytes`,
  },
  push: {
    argument: "DIR",
    run: async (home, directory, { folder }, terminal) => ({
      ...await push(home, directory, folder, terminal),
    }),
    describe: (done) =>
      `Pushed ${done.folder}: ${done.files} files new or changed, ${done.deleted} deleted, ${done.unchanged} unchanged; ` +
      `${done.blocks} blocks, head ${done.sequence_number}`,
  },
  pull: {
    argument: "DIR",
    run: async (home, directory, options, terminal) => ({
      ...await pull(home, directory, options, terminal),
    }),
    describe: (done) =>
      [
        `Pulled ${done.folder}: ${done.files} files written, ${done.unchanged} unchanged; ${done.blocks} blocks checked`,
        ...(done.kept as string[]).map((path) => `Kept ${path}, which differs (--force replaces it)`),
      ].join("\n"),
  },
  status: {
    run: (home, _, { agent }) => status(home, agent),
    describe: (now) => JSON.stringify(now, undefined, 2),
  },
  verify: {
    run: async (home, _, { agent }, terminal) => ({ ...await verify(home, agent, terminal) }),
    describe: (found) =>
      found.valid
        ? `VALID: ${found.blocks} blocks, ${found.snapshots} snapshots`
        : `BROKEN after ${found.blocks} blocks and ${found.snapshots} snapshots: ${found.reason}`,
  },
};

/** Runs the command and returns its exit status: 0, 1 when it failed or found something broken, 2 when misused. */
export async function runAgent(args: string[]): Promise<number> {
  // `deno task agent -- …` passes the dashes on.
  const given = args[0] === "--" ? args.slice(1) : args;
  const terminal = openTerminal(given.includes("--json"));
  try {
    const { values, positionals: [name, ...rest] } = parse(given);
    if (values.help) {
      terminal.print(USAGE);
      return 0;
    }
    const command = name !== undefined && Object.hasOwn(COMMANDS, name) ? COMMANDS[name]! : undefined;
    if (command === undefined) {
      throw new UsageError(`${name === undefined ? "" : `No command ${name}.\n\n`}${USAGE}`);
    }
    const expected = command.argument === undefined ? 0 : 1;
    if (rest.length !== expected) {
      throw new UsageError(`${name} takes ${command.argument ?? "no argument"}.\n\n${USAGE}`);
    }
    const home = await openHome(values);
    if (home.madeKey) {
      terminal.note(`Made a key: ${home.directory}/key. Keep a copy: nothing can be read without it.`);
    }
    const result = await command.run(home, rest[0] ?? "", values, terminal);
    terminal.print(values.json ? JSON.stringify(result) : command.describe(result));
    return result.valid === false ? FAILED : 0;
  } catch (error) {
    return fail(error, given.includes("--json"), terminal);
  }
}

function fail(error: unknown, json: boolean, terminal: Terminal): number {
  const misused = error instanceof UsageError ||
    (error as { code?: string }).code?.startsWith("ERR_PARSE_ARGS");
  const message = error instanceof Error ? error.message : String(error);
  const code = error instanceof AgentStateError ? error.code : misused ? "usage" : "failed";
  if (json) terminal.print(JSON.stringify({ error: code, message }));
  else process.stderr.write(`${message}\n`);
  return misused ? MISUSED : FAILED;
}

function parse(args: string[]) {
  return parseArgs({ args, options: OPTIONS, allowPositionals: true });
}

function readSequence(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (!/^(0|[1-9][0-9]{0,14})$/.test(text)) throw new UsageError(`Not a sequence number: ${text}`);
  return Number(text);
}
