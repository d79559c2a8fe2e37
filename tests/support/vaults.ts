/** Vaults and what people do with them: one line for each step of a test, at a time that the test sets. */

import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { randomBytes } from "node:crypto";
import { sha256 } from "../../supabase/functions/_shared/domain/bytes.ts";
import type { Platform } from "../../supabase/functions/_shared/platform/mod.ts";
import type { Answer, World } from "./harness.ts";
import { newPerson, type Person } from "./people.ts";
import { newAddress, PUBLIC_KEY, withoutMail } from "./teams.ts";

export const HOUR_MS = 3_600_000;
export const DAY_MS = 24 * HOUR_MS;
const START = Date.parse("2027-01-01T00:00:00.000Z");

export type Role = "heir" | "guardian";

/** Somebody named in a vault, and the token that they have from a mail. */
export interface Named {
  id: string;
  role: Role;
  email: string;
  token: string;
}

/** A vault, its owner, and the clock of the service that it is asked at. */
export interface Vault {
  id: string;
  owner: Person;
  /** An ordinary API key of the owner. */
  key: string;
  world: World;
  service: { requestVault: World["requestVault"]; platform: Platform };
  /** The vault's time, in milliseconds since 1970. */
  clock: { ms: number };
}

/** A new person's vault, with its own clock, which begins in the future unless told otherwise. */
export async function newVault(
  world: World,
  over: Record<string, unknown> = {},
  startMs = START,
): Promise<Vault> {
  const clock = { ms: startMs };
  const owner = await newPerson(world);
  const key = await newApiKey(world, owner);
  const service = world.with({ now: () => new Date(clock.ms), db: withoutMail(world.platform.db) });
  const made = await service.requestVault("POST", "/api/vault", {
    headers: { "x-api-key": key },
    body: { name: "Papers", sss_preset: "standard", ...over },
  });
  assert.equal(made.status, 201, made.text);
  return { id: made.body.id, owner, key, world, service, clock };
}

/** An API key of somebody, ordinary unless told otherwise. */
export async function newApiKey(world: World, person: Person, scopes?: string[]): Promise<string> {
  const body = { name: "key", ...(scopes === undefined ? {} : { scopes }) };
  const made = await world.request("POST", "/api-keys", { token: person.token, body });
  assert.equal(made.status, 201, made.text);
  return made.body.raw_secret;
}

/** Lets time pass. */
export function wait(vault: Vault, ms: number): void {
  vault.clock.ms += ms;
}

/** Asks as the owner does by API key. `path` is what follows the vault's id. */
export function ask(vault: Vault, method: string, path: string, body?: unknown): Promise<Answer> {
  return vault.service.requestVault(method, `/api/vault/${vault.id}${path}`, {
    headers: { "x-api-key": vault.key },
    ...(body === undefined ? {} : { body }),
  });
}

/** Asks as the owner does who has signed in. */
export function askAlive(vault: Vault, method: string, path: string, body?: unknown): Promise<Answer> {
  return vault.service.requestVault(method, `/api/vault/${vault.id}${path}`, {
    token: vault.owner.token,
    body,
  });
}

/** Asks as an heir or guardian does. */
export function askByToken(
  vault: Vault,
  named: Pick<Named, "token">,
  path: string,
  body: object = {},
): Promise<Answer> {
  const about = path.startsWith("/invitation") ? "" : `/${vault.id}`;
  return vault.service.requestVault("POST", `/api/vault${about}${path}`, {
    headers: newAddress(),
    body: { token: named.token, ...body },
  });
}

/** The vault as its owner sees it. Anything else than 200 fails the test. */
// deno-lint-ignore no-explicit-any
export async function look(vault: Vault): Promise<any> {
  return expect(200, await ask(vault, "GET", ""));
}

/** The answer's body, when it has this status. */
// deno-lint-ignore no-explicit-any
export function expect(status: number, answer: Answer): any {
  assert.equal(answer.status, status, answer.text);
  return answer.body;
}

/** A well-formed body of POST …/heir and …/guardian. */
export function personBody(over: Record<string, unknown> = {}) {
  return { name: "Ada", email: `${crypto.randomUUID()}@example.com`, ...over };
}

/** Names somebody, who has a token and has not accepted. */
export async function invite(vault: Vault, role: Role, over: Record<string, unknown> = {}): Promise<Named> {
  const made = expect(201, await ask(vault, "POST", `/${role}`, personBody(over)));
  return { id: made.id, role, email: made.email, token: await mintToken(vault, made.id) };
}

/** Names somebody who accepts and is confirmed, with a share unless told otherwise. */
export async function nameSomebody(
  vault: Vault,
  role: Role,
  over: { share?: string | null } = {},
): Promise<Named> {
  const named = await invite(vault, role);
  expect(200, await askByToken(vault, named, "/invitation/accept", { public_key: PUBLIC_KEY }));
  const share = over.share === undefined ? randomBytes(32).toString("base64") : over.share;
  const body = share === null ? {} : { wrapped_share: share };
  const confirmed = expect(200, await ask(vault, "POST", `/${role}/${named.id}/confirm`, body));
  assert.equal(confirmed.status, "confirmed");
  return named;
}

/** Another token of somebody, as the next mail would make one. */
export async function mintToken({ world }: Pick<Vault, "world">, personId: string): Promise<string> {
  const token = `inv_${randomBytes(32).toString("base64url")}`;
  await world.platform.db.call("mint_invitation_token", {
    p_invitation_id: personId,
    p_token_hash: sha256(token),
  });
  return token;
}

/** A well-formed body of POST …/asset. */
export function assetBody(over: Record<string, unknown> = {}, bytes: Uint8Array = randomBytes(64)) {
  return { name: "will.txt", ciphertext_b64: Buffer.from(bytes).toString("base64"), ...over };
}

/** Adds an asset, wrapped for the heirs given. */
export async function addAsset(vault: Vault, heirs: Named[] = []): Promise<string> {
  const wrapped = heirs.map(({ id }) => ({ heir_id: id, wrapped_key: `key for ${id}` }));
  return expect(201, await ask(vault, "POST", "/asset", assetBody({ wrapped_keys: wrapped }))).id;
}

/** Arms a trigger. */
export async function configure(vault: Vault, trigger: string, config: object = {}): Promise<void> {
  expect(200, await ask(vault, "POST", "/release/config", { trigger, config }));
}

/** A vault with one confirmed heir and two guardians, each with a share, and the switch on: 30, 7 and 7 days. */
export async function newArmedVault(world: World, config: object = {}) {
  const vault = await newVault(world);
  const heir = await nameSomebody(vault, "heir");
  const guardians = [await nameSomebody(vault, "guardian"), await nameSomebody(vault, "guardian")];
  const asset = await addAsset(vault, [heir]);
  await configure(vault, "dead_man_switch", config);
  return { vault, heir, guardians, asset };
}

/** What is in a vault's ledger, oldest first. */
export async function actionsOf({ world, id }: Vault): Promise<string[]> {
  const sql = "select action from app.vault_audit_entries where vault_id = $1 order by seq";
  return (await world.sql.query(sql, [id])).rows.map(({ action }) => action);
}

/** The mails that are owed about a vault, oldest first: kind and whom to. */
export async function mailsAbout({ world, id }: Vault): Promise<{ kind: string; recipient: string }[]> {
  const sql =
    "select kind, recipient from app.mail_outbox where facts ->> 'vault_id' = $1 order by created_at, kind";
  return (await world.sql.query(sql, [id])).rows;
}
