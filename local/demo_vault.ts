/**
 * `deno task demo:vault`: somebody leaves an asset to an heir, misses a check-in, and the heir decrypts it.
 *
 * Everything goes over HTTP and by mail, as it would for people; the keys are made and used here, on the clients' side.
 * Without `--url` the demo runs on a service of its own, whose vault clock runs fast. `--url` needs `deno task start`
 * with `VAULT_CLOCK_SPEED` on the same DATA_DIR.
 */

import { join } from "node:path";
import { parseArgs } from "node:util";
import { findRunningStack } from "./data_dir.ts";
import { startOwnStack } from "./own_stack.ts";
import { print, printError } from "./print.ts";
import { LOCAL_AUDIENCE, LOCAL_ISSUER, openSessionIssuer } from "./session_issuer.ts";
import {
  combineShares,
  type KeyPair,
  newKeyPair,
  newVaultKey,
  openAsset,
  sealAsset,
  splitKey,
  wrapFor,
} from "./vault_crypto.ts";

const USAGE = "Usage: deno task demo:vault [--url http://127.0.0.1:8787]";
const OWN_CLOCK_SPEED = "20000";
const MAIL_MS_MAX = 30_000;
const RELEASE_MS_MAX = 600_000;
const POLL_MS = 300;
const WILL = "The house is for Ben. The recipe is in the blue book.";

// deno-lint-ignore no-explicit-any
type Json = any;

/** The service, how to ask it, and where it leaves its mail. */
interface Service {
  url: string;
  mailDir: string;
  session: string;
}

/** An heir or guardian. */
interface Guest {
  name: string;
  role: "heir" | "guardian";
  email: string;
  id: string;
  token: string;
  keys: KeyPair;
}

async function main(): Promise<void> {
  await using parts = new AsyncDisposableStack();
  const service = await connect(readUrl(), parts);
  print(`Service   ${service.url}/functions/v1/vault\n`);
  const owner = await createOwner(service);
  const vault = await owner("POST", "", { name: "Papers", sss_preset: "standard" });
  print(`alice     made a vault: any ${vault.threshold} of ${vault.shares} shares open it`);

  const guests: Guest[] = [];
  for (const [name, role] of [["ben", "heir"], ["carol", "guardian"], ["dan", "guardian"]] as const) {
    guests.push(await nameGuest(service, owner, vault.id, name, role));
  }
  const [ben, carol] = guests as [Guest, Guest];
  const key = newVaultKey();
  const shares = await splitKey(key, vault.shares, vault.threshold);
  for (const [i, { name, role, id, keys }] of guests.entries()) {
    const wrapped_share = await wrapFor(keys.pem, shares[i]!);
    await owner("POST", `/${vault.id}/${role}/${id}/confirm`, { wrapped_share });
    print(`alice     confirmed ${name} and wrapped a share for them`);
  }
  const sealed = await sealAsset(key, new TextEncoder().encode(WILL));
  const asset = await owner("POST", `/${vault.id}/asset`, {
    name: "will.txt",
    ciphertext_b64: sealed.ciphertext_b64,
    wrapped_keys: [{ heir_id: ben.id, wrapped_key: sealed.wrapped_key }],
  });
  print(`alice     stored will.txt, ${asset.byte_size} bytes of ciphertext`);
  await owner("POST", `/${vault.id}/release/config`, {
    trigger: "dead_man_switch",
    config: { check_in_interval_days: 1, grace_days: 1, veto_window_hours: 24 },
  });
  await owner("POST", `/${vault.id}/check-in`);
  print("alice     armed the switch, checked in, and is never heard of again");
  check(await isRefused(service, vault.id, ben), "ben gets nothing while the vault is active");
  print("ben       is refused: not_released\n");
  await waitForRelease(owner, vault.id);

  const token = await tokenIn(service, ben.email, "is released to you");
  const got = await ask(service, "POST", `/${vault.id}/pick-up`, { token });
  print(`\nben       picked up ${got.assets.length} asset and ${got.shares.length} wrapped shares`);
  const own = await ben.keys.unwrap(shareOf(got, ben));
  const other = await carol.keys.unwrap(shareOf(got, carol));
  print("carol     unwrapped hers for ben");
  const content = await ask(service, "POST", `/${vault.id}/pick-up/${asset.id}`, { token });
  const opened = await openAsset(await combineShares([own, other]), content);
  const text = new TextDecoder().decode(opened);
  check(text === WILL, "ben reads what alice wrote");
  print(`ben       combined both and read: "${text}"`);
  const alone = await combineShares([other, other.slice()]).then((wrong) => openAsset(wrong, content)).then(
    () => true,
    () => false,
  );
  check(!alone, "one share alone opens nothing");
  const ledger = await owner("GET", `/${vault.id}/audit/verify`);
  check(ledger.valid, "the ledger is whole");
  print(
    `\nVerdict: released after a missed check-in, opened by its heir; the ledger's ${ledger.checked} entries hold.`,
  );
}

/** Signs alice in and gives her agent a key, as the dashboard would. */
async function createOwner(service: Service) {
  const made = await call(`${service.url}/functions/v1/v2-agent-state/api-keys`, "POST", {
    authorization: `Bearer ${service.session}`,
  }, { name: "vault" });
  const key = { "x-api-key": made.raw_secret as string };
  const session = { authorization: `Bearer ${service.session}` };
  return (method: string, path: string, body?: unknown): Promise<Json> =>
    call(
      `${service.url}/functions/v1/vault/api/vault${path}`,
      method,
      // A key is not enough to say that alice lives.
      path.endsWith("/check-in") ? session : key,
      body,
    );
}

/** Names somebody, who gets the mail, makes a key pair and accepts. */
async function nameGuest(
  service: Service,
  owner: (method: string, path: string, body?: unknown) => Promise<Json>,
  vaultId: string,
  name: string,
  role: Guest["role"],
): Promise<Guest> {
  const email = `${name}-${crypto.randomUUID().slice(0, 8)}@example.com`;
  const { id } = await owner("POST", `/${vaultId}/${role}`, { name, email });
  const token = await tokenIn(service, email, "You are asked to be");
  const keys = await newKeyPair();
  await ask(service, "POST", "/invitation/accept", { token, public_key: keys.pem });
  print(`${name.padEnd(10)}was named ${role}, got the mail and accepted with a key of their own`);
  return { name, role, email, id, token, keys };
}

function shareOf(got: Json, { id }: Guest): string {
  return got.shares.find(({ person_id }: { person_id: string }) => person_id === id).wrapped_share;
}

async function isRefused(service: Service, vaultId: string, { token }: Guest): Promise<boolean> {
  return await ask(service, "POST", `/${vaultId}/pick-up`, { token }).then(
    () => false,
    (error: Error) => error.message.includes('"not_released"'),
  );
}

async function waitForRelease(
  owner: (method: string, path: string) => Promise<Json>,
  id: string,
): Promise<void> {
  let shown = "";
  await eventually(RELEASE_MS_MAX, "the vault is released; does its clock run fast?", async () => {
    const { state, release } = await owner("GET", `/${id}`);
    const line = { active: `due ${release.check_in_due_at}`, releasing: `until ${release.release_at}` }[
      state as string
    ] ?? `at ${release.released_at}`;
    if (state !== shown) print(`vault     is ${state}, ${line}`);
    shown = state;
    return state === "released" ? state : undefined;
  });
}

/** The token in the newest mail to somebody whose subject says this. */
async function tokenIn({ mailDir }: Service, email: string, subject: string): Promise<string> {
  return await eventually(MAIL_MS_MAX, `a mail to ${email} is in ${mailDir}`, async () => {
    const names = (await Array.fromAsync(Deno.readDir(mailDir))).map(({ name }) => name).sort().reverse();
    for (const name of names.filter((each) => each.endsWith(".txt"))) {
      const text = await Deno.readTextFile(join(mailDir, name));
      const [head] = text.split("\n\n");
      if (head!.includes(`To: ${email}`) && head!.includes(subject)) return /inv_[\w-]{43}/.exec(text)?.[0];
    }
  });
}

async function eventually<T>(msMax: number, what: string, probe: () => Promise<T | undefined>): Promise<T> {
  for (const end = Date.now() + msMax; Date.now() < end;) {
    const found = await probe();
    if (found !== undefined) return found;
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
  throw new Error(`Waited ${msMax / 1000} s until ${what}`);
}

function ask({ url }: Service, method: string, path: string, body: unknown): Promise<Json> {
  return call(`${url}/functions/v1/vault/api/vault${path}`, method, {}, body);
}

async function call(
  url: string,
  method: string,
  headers: Record<string, string>,
  body?: unknown,
): Promise<Json> {
  const response = await fetch(url, {
    method,
    headers: { "content-type": "application/json", ...headers },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${new URL(url).pathname} answered ${response.status} ${text}`);
  return JSON.parse(text);
}

function check(held: boolean, what: string): void {
  if (!held) throw new Error(`It does not hold that ${what}`);
}

/** A running service and its issuer, or one of our own that is thrown away. */
async function connect(url: string | undefined, parts: AsyncDisposableStack): Promise<Service> {
  const claims = { sub: `alice-${crypto.randomUUID().slice(0, 8)}`, email: "alice@example.com" };
  if (url !== undefined) {
    const dataDir = Deno.env.get("DATA_DIR") || ".data";
    const running = await findRunningStack(dataDir);
    const sessions = await openSessionIssuer(dataDir);
    const [issuer, audience] = [running?.issuer ?? LOCAL_ISSUER, running?.audience ?? LOCAL_AUDIENCE];
    const session = await sessions.issueSession({ ...claims, issuer, audience });
    return { url, mailDir: join(dataDir, "mail"), session };
  }
  const stack = await startOwnStack(parts, { VAULT_CLOCK_SPEED: OWN_CLOCK_SPEED });
  const session = await stack.sessions.issueSession({
    ...claims,
    issuer: LOCAL_ISSUER,
    audience: LOCAL_AUDIENCE,
  });
  return { url: stack.url, mailDir: join(stack.dataDir, "mail"), session };
}

function readUrl(): string | undefined {
  try {
    const { values } = parseArgs({ args: Deno.args, options: { url: { type: "string" } } });
    if (values.url !== undefined && !URL.canParse(values.url)) throw new Error(`Not a URL: ${values.url}`);
    return values.url === undefined ? undefined : new URL(values.url).origin;
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
