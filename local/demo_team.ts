/**
 * `deno task demo:team`: two people share a memory that the server cannot read; one is removed.
 *
 * The keys are real: the team's key is wrapped for each member with their public key, and never leaves a member
 * otherwise. At the end the audit ledger is exported to a file. Without `--url` the demo runs
 * on a service of its own; `--url` needs one that takes sessions of this machine's issuer (`deno task start`).
 */

import { parseArgs } from "node:util";
import {
  AgentStateError,
  createMemoryStore,
  fingerprint,
  generateMemberKeys,
  type MemberKeys,
  type Store,
  TeamClient,
} from "../client/mod.ts";
import { findRunningStack } from "./data_dir.ts";
import { baseOf, startOwnStack } from "./own_stack.ts";
import { print, printError } from "./print.ts";
import { LOCAL_AUDIENCE, LOCAL_ISSUER, openSessionIssuer } from "./session_issuer.ts";

const USAGE = "Usage: deno task demo:team [--url BASE] [--export FILE]";

/** Somebody with a session and keys of their own. */
interface Person {
  baseUrl: string;
  memberId: string;
  token: string;
  keys: MemberKeys;
  store: Store;
}

async function main(): Promise<void> {
  const { url, file } = readArguments();
  await using parts = new AsyncDisposableStack();
  const { base, issue } = await connect(url, parts);
  const [alice, bob] = await Promise.all([newPerson("alice", base, issue), newPerson("bob", base, issue)]);
  print(`Service   ${base}\n`);

  const team = await TeamClient.create(alice, "Research");
  print("alice     made the team; its key is wrapped for her (epoch 0)");
  await team.grant({ memberId: bob.memberId, publicKey: bob.keys.publicKey, role: "write" });
  print(
    `alice     wrapped the key for bob, who may now write (${
      fingerprint(bob.keys.publicKey).slice(0, 17)
    } …)`,
  );

  const note = "the answer is 42";
  await team.write(note);
  const asBob = TeamClient.open(bob, team.teamId);
  const read = (await Array.fromAsync(asBob.read())).at(-1)?.value;
  check(read === note, "bob reads what alice wrote");
  print(`bob       unwrapped his key and read: "${read}"`);

  const epoch = await team.rotate({ revoke: bob.memberId, reason: "bob left" });
  print(`alice     removed bob and rotated the key (epoch ${epoch})`);
  await team.write("not for bob");
  check(await isRefused(TeamClient.open(bob, team.teamId).write("let me in"), "no_grant"), "bob gets no key");
  check(await isRefused(Array.fromAsync(asBob.read()), "not_a_team_member"), "bob reads nothing any more");
  print("bob       is refused: no_grant, not_a_team_member");

  const { export: ledger, checked } = await team.verifyAudit();
  await Deno.writeTextFile(file, JSON.stringify(ledger, undefined, 2) + "\n");
  print(`alice     exported the ledger (${checked} entries) to ${file}`);
  print(`\nVerdict: shared, removed, rotated. Check the ledger offline:\n\n  deno task verify-audit ${file}`);
}

async function isRefused(work: Promise<unknown>, code: string): Promise<boolean> {
  return await work.then(
    () => false,
    (error) => error instanceof AgentStateError && error.code === code,
  );
}

function check(held: boolean, what: string): void {
  if (!held) throw new Error(`It does not hold that ${what}`);
}

async function newPerson(
  name: string,
  baseUrl: string,
  issue: (sub: string) => Promise<string>,
): Promise<Person> {
  const memberId = `${name}-${crypto.randomUUID().slice(0, 8)}`;
  const token = await issue(memberId);
  return { baseUrl, memberId, token, keys: await generateMemberKeys(), store: createMemoryStore() };
}

/** A running service and its issuer, or one of our own that is thrown away. */
async function connect(url: string | undefined, parts: AsyncDisposableStack) {
  if (url !== undefined) {
    const dataDir = Deno.env.get("DATA_DIR") || ".data";
    const running = await findRunningStack(dataDir);
    const sessions = await openSessionIssuer(dataDir);
    const issuer = running?.issuer ?? LOCAL_ISSUER;
    const audience = running?.audience ?? LOCAL_AUDIENCE;
    return { base: url, issue: (sub: string) => sessions.issueSession({ sub, issuer, audience }) };
  }
  const stack = await startOwnStack(parts);
  const claims = { issuer: LOCAL_ISSUER, audience: LOCAL_AUDIENCE };
  return {
    base: baseOf(stack),
    issue: (sub: string) => stack.sessions.issueSession({ sub, ...claims }),
  };
}

function readArguments(): { url: string | undefined; file: string } {
  try {
    const { values } = parseArgs({
      args: Deno.args,
      options: { url: { type: "string" }, export: { type: "string", default: "audit.json" } },
    });
    if (values.url !== undefined && !URL.canParse(values.url)) throw new Error(`Not a URL: ${values.url}`);
    return { url: values.url?.replace(/\/+$/, ""), file: values.export };
  } catch (error) {
    printError(`${error instanceof Error ? error.message : error}\n${USAGE}`);
    Deno.exit(2);
  }
}

try {
  await main();
} catch (error) {
  printError(`\nVerdict: the demo failed. ${error instanceof Error ? error.message : error}`);
  Deno.exit(1);
}
