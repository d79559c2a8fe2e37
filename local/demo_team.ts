/**
 * `deno task demo:team`: two people share a memory that the server cannot read; one is removed.
 *
 * The keys are real (WebCrypto): the team's AES-256-GCM key is wrapped for each member with their RSA-OAEP key, and
 * never leaves a member otherwise. At the end the audit ledger is exported to a file. Without `--url` the demo runs
 * on a service of its own; `--url` needs one that takes sessions of this machine's issuer (`deno task start`).
 */

import { parseArgs } from "node:util";
import { newKey, open, seal } from "./agent_crypto.ts";
import { findRunningStack } from "./data_dir.ts";
import { baseOf, startOwnStack } from "./own_stack.ts";
import { print, printError } from "./print.ts";
import { LOCAL_AUDIENCE, LOCAL_ISSUER, openSessionIssuer } from "./session_issuer.ts";

const USAGE = "Usage: deno task demo:team [--url BASE] [--export FILE]";
const RSA = {
  name: "RSA-OAEP",
  modulusLength: 2048,
  publicExponent: new Uint8Array([1, 0, 1]),
  hash: "SHA-256",
};

interface Person {
  name: string;
  session: string;
  pem: string;
  wrap(key: CryptoKey): Promise<string>;
  unwrap(wrapped: string): Promise<CryptoKey>;
}

type Json = Record<string, unknown>;
type Call = (who: Person, method: string, path: string, body?: unknown) => Promise<Json>;

async function main(): Promise<void> {
  const { url, file } = readArguments();
  await using parts = new AsyncDisposableStack();
  const { base, issue } = await connect(url, parts);
  const call = createCall(base);
  const [alice, bob] = await Promise.all([newPerson("alice", issue), newPerson("bob", issue)]);
  print(`Service   ${base}\n`);

  const first = await newKey();
  const team = await call(alice, "POST", "/teams", {
    name: "Research",
    owner_pubkey: alice.pem,
    owner_wrapped_dek: await alice.wrap(first),
  });
  const path = `/teams/${team.id}`;
  print(`alice     made the team; its key is wrapped for her (epoch ${team.rotation_seq})`);
  await call(alice, "POST", `${path}/grants`, {
    member_id: bob.name,
    member_pubkey: bob.pem,
    wrapped_dek: await bob.wrap(first),
    role: "write",
  });
  print("alice     wrapped the key for bob, who may now write");

  const note = "the answer is 42";
  const sealed = await seal(first, new TextEncoder().encode(note));
  await call(alice, "POST", `${path}/memories`, { ciphertext_b64: sealed.toBase64() });
  const read = await readLatest(call, bob, path);
  check(read === note, "bob reads what alice wrote");
  print(`bob       unwrapped his key and read: "${read}"`);

  const second = await newKey();
  const rotation = await call(alice, "POST", `${path}/rotate`, {
    revoke_member_id: bob.name,
    reason: "bob left",
    grants: [{ member_id: alice.name, wrapped_dek: await alice.wrap(second) }],
  });
  print(`alice     removed bob and rotated the key (epoch ${rotation.rotation_seq})`);
  const secret = await seal(second, new TextEncoder().encode("not for bob"));
  await call(alice, "POST", `${path}/memories`, { ciphertext_b64: secret.toBase64() });
  check(await isRefused(call, bob, `${path}/grant`, "no_grant"), "bob gets no key any more");
  check(await isRefused(call, bob, `${path}/memories`, "not_a_team_member"), "bob reads nothing any more");
  print("bob       is refused: no_grant, not_a_team_member");

  const ledger = await call(alice, "GET", `${path}/audit/export`);
  await Deno.writeTextFile(file, JSON.stringify(ledger, undefined, 2) + "\n");
  print(`alice     exported the ledger (${(ledger.entries as unknown[]).length} entries) to ${file}`);
  print(`\nVerdict: shared, removed, rotated. Check the ledger offline:\n\n  deno task verify-audit ${file}`);
}

/** Fetches the caller's wrapped key, and the newest memory, and decrypts it. */
async function readLatest(call: Call, who: Person, path: string): Promise<string> {
  const grant = await call(who, "GET", `${path}/grant`);
  const key = await who.unwrap(String(grant.wrapped_dek));
  const { memories } = await call(who, "GET", `${path}/memories`) as {
    memories: { ciphertext_b64: string }[];
  };
  return new TextDecoder().decode(await open(key, Uint8Array.fromBase64(memories.at(-1)!.ciphertext_b64)));
}

async function isRefused(call: Call, who: Person, path: string, code: string): Promise<boolean> {
  return await call(who, "GET", path).then(
    () => false,
    (error: Error) => error.message.includes(`"${code}"`),
  );
}

function check(held: boolean, what: string): void {
  if (!held) throw new Error(`It does not hold that ${what}`);
}

async function newPerson(name: string, issue: (sub: string) => Promise<string>): Promise<Person> {
  const subject = `${name}-${crypto.randomUUID().slice(0, 8)}`;
  const { publicKey, privateKey } = await crypto.subtle.generateKey(RSA, true, ["wrapKey", "unwrapKey"]);
  const der = new Uint8Array(await crypto.subtle.exportKey("spki", publicKey));
  return {
    name: subject,
    session: await issue(subject),
    pem: `-----BEGIN PUBLIC KEY-----\n${der.toBase64()}\n-----END PUBLIC KEY-----\n`,
    async wrap(key) {
      return new Uint8Array(await crypto.subtle.wrapKey("raw", key, publicKey, RSA)).toBase64();
    },
    unwrap(wrapped) {
      const bytes = Uint8Array.fromBase64(wrapped);
      return crypto.subtle.unwrapKey("raw", bytes, privateKey, RSA, "AES-GCM", true, ["encrypt", "decrypt"]);
    },
  };
}

function createCall(base: string): Call {
  return async function call(who, method, path, body) {
    const response = await fetch(base + path, {
      method,
      headers: { authorization: `Bearer ${who.session}`, "content-type": "application/json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path} answered ${response.status} ${text}`);
    return JSON.parse(text);
  };
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
