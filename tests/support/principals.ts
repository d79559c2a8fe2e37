/** Everybody who might send a request and is not the one who may. */

import { randomBytes } from "node:crypto";
import { mintLiveKey } from "../../supabase/functions/_shared/domain/credential.ts";
import { CRON_SECRET } from "./everything.ts";
import { newDirectory } from "./directory.ts";
import { newKeyOf, newPaidKey, newProjectToken } from "./factories.ts";
import { createForger, now, STRANGER } from "./forger.ts";
import type { RequestOptions, World } from "./harness.ts";
import type { Credential, Operation, Prepared } from "./operations/mod.ts";
import { accountIdOf, newPerson, type Person } from "./people.ts";
import { sign, VECTOR } from "./polar.ts";
import {
  invite,
  newGuest,
  newMember,
  newSubkey,
  newTeam,
  remove,
  type Role,
  send,
  subscribe,
  type Team,
  withoutMail,
} from "./teams.ts";
import { againstLinks, againstVaultGuests, againstVaultOwners, amongThePublic } from "./vault_principals.ts";

/** Somebody who tries. */
export interface Principal {
  name: string;
  /** What they send with the rightful request instead of its own credential. */
  credential: Pick<RequestOptions, "token" | "headers"> & { body?: unknown };
  /** Whether they have an account of their own, on which a request that names nothing of others may act. */
  own?: true;
}

/** Everybody who may not send an operation's request, ready to try. */
export async function principalsAgainst(
  world: World,
  operation: Operation,
  prepared: Prepared,
): Promise<Principal[]> {
  const make: Record<Credential, () => Promise<Principal[]>> = {
    "api key": () => againstKeys(world, prepared),
    "session": () => againstSessions(world, operation, prepared),
    "SCIM token": () => againstDirectories(world, prepared),
    "cron secret": () => againstCron(world),
    "signature": () => againstSignatures(world, prepared),
    "anyone": () => againstHolders(world),
    "the public": () => amongThePublic(world),
    "signed link": () => Promise.resolve(againstLinks(operation, prepared)),
    "vault owner": () => againstVaultOwners(world, operation, prepared),
    "living vault owner": () => againstVaultOwners(world, operation, prepared),
    "vault token": () => againstVaultGuests(world, operation, prepared),
  };
  return [...nobodyAgainst(operation), ...await make[operation.opens]()];
}

/** Who has no credential. Who needs no header to be known cannot be turned away for lacking one. */
function nobodyAgainst({ opens }: Operation): Principal[] {
  if (opens === "signed link" || opens === "vault token") return [];
  if (opens === "the public") return NOBODY.map((principal) => ({ ...principal, own: true }));
  return NOBODY.filter(({ name }) => opens !== "anyone" || !NAMELESS.includes(name));
}

const NOBODY: Principal[] = [
  { name: "nobody", credential: {} },
  { name: "a bearer without a token", credential: { headers: { authorization: "Bearer" } } },
  { name: "a password", credential: { headers: { authorization: "Basic dXNlcjpwYXNz" } } },
  { name: "a token of no kind", credential: { token: "0".repeat(64) } },
  { name: "a token in another header", credential: { headers: { "x-api-key": "sov_live_x", apikey: "x" } } },
];
const NAMELESS = ["nobody", "a token in another header"];

async function againstKeys(world: World, { options }: Prepared): Promise<Principal[]> {
  const person = await newPerson(world);
  const stranger = await newPaidKey(world);
  const team = await newTeam(world);
  const subkey = await newSubkey(world, team, team.owner);
  const removed = await newMember(world, team);
  const removedKey = await newSubkey(world, team, removed);
  await remove(world, team, removed, [team.owner]);
  const mine = mintLiveKey((count) => randomBytes(count));
  const principals: Principal[] = [
    { name: "a key that was never issued", credential: { token: mine } },
    {
      name: "a key with a wrong checksum",
      credential: { token: `${mine.slice(0, -1)}${mine.endsWith("0") ? 1 : 0}` },
    },
    { name: "a key cut short", credential: { token: options.token!.slice(0, -1) } },
    { name: "a key in the wrong case", credential: { token: options.token!.toUpperCase() } },
    { name: "a session", credential: { token: person.token } },
    { name: "the cron secret", credential: { token: CRON_SECRET } },
    { name: "a SCIM token", credential: { token: `scim_${randomBytes(32).toString("hex")}` } },
    { name: "a removed member's sub-key", credential: { token: removedKey.token } },
    { name: "another person's key", credential: { token: stranger.token }, own: true },
    { name: "another project's token", credential: { token: newProjectToken() }, own: true },
    { name: "another team's sub-key", credential: { token: subkey.token }, own: true },
  ];
  const { rows: [holder] } = await world.sql.query(
    "select account_id from app.api_keys where key_hash = sha256(convert_to($1, 'UTF8'))",
    [options.token],
  );
  if (holder !== undefined) {
    const { token, keyId } = await newKeyOf(world, holder.account_id);
    await world.sql.query("update app.api_keys set revoked_at = now() where id = $1", [keyId]);
    principals.push({ name: "a revoked key of the same account", credential: { token } });
  }
  return principals;
}

async function againstSessions(
  world: World,
  { role }: Operation,
  { person, team }: Prepared,
): Promise<Principal[]> {
  const other = await newPerson(world);
  await accountIdOf(world, other);
  const key = await newPaidKey(world);
  const forger = createForger(world.issuer, person!.subject);
  const past = { iat: now() - 7200, exp: now() - 3600 };
  const principals: Principal[] = [
    { name: "a key", credential: { token: key.token } },
    { name: "a project's token", credential: { token: newProjectToken() } },
    { name: "the cron secret", credential: { token: CRON_SECRET } },
    { name: "a SCIM token", credential: { token: `scim_${randomBytes(32).toString("hex")}` } },
    { name: "an expired session", credential: { token: await forger.token({ claims: past }) } },
    { name: "a session of another key", credential: { token: await forger.token({ key: STRANGER }) } },
    {
      name: "a session of another issuer",
      credential: { token: await forger.token({ claims: { iss: "https://x.test" } }) },
    },
    {
      name: "a session for others",
      credential: { token: await forger.token({ claims: { aud: "others" } }) },
    },
    {
      name: "an unsigned session",
      credential: { token: await forger.byHand({ alg: "none" }, undefined, () => new Uint8Array()) },
    },
    { name: "another person", credential: { token: other.token }, own: true },
  ];
  if (team !== undefined) principals.push(...await againstMembers(world, team, role ?? "read"));
  return principals;
}

/** Those who know a team from inside: lower roles, those who have left, those who have not come, their keys. */
async function againstMembers(world: World, team: Team, role: Role): Promise<Principal[]> {
  const { rows: plans } = await world.sql.query(
    "select 1 from app.subscriptions s join app.accounts a on a.id = s.account_id where a.subject = $1",
    [team.owner.subject],
  );
  if (plans.length === 0) await subscribe(world, team.owner, "growth", { seats: 20 });
  const elsewhere = await newTeam(world);
  const removed = await newMember(world, team, "admin");
  await remove(world, team, removed, await holdersOf(world, team, removed));
  const invited = await newPerson(world);
  await invite(world.with({ db: withoutMail(world.platform.db) }), team, invited.email, { role: "admin" });
  const subkey = await newSubkey(world, team, team.owner);
  const as = (name: string, { token }: Pick<Person, "token">): Principal => ({ name, credential: { token } });
  const lower = (["read", "write"] as const).slice(0, ["read", "write", "admin"].indexOf(role));
  return [
    as("an admin of another team", elsewhere.owner),
    as("an admin who was removed", removed),
    as("an admin who is invited and has not come", invited),
    as("a sub-key of the team's admin", subkey),
    ...await Promise.all(
      lower.map(async (each) => as(`a member who may only ${each}`, await newMember(world, team, each))),
    ),
    ...await Promise.all(
      lower.map(async (each) =>
        as(`a guest who may only ${each} and has no grant`, await newGuest(world, team, each))
      ),
    ),
  ];
}

/** Who holds a grant of a team, but for one: of them nothing but their ids is needed. */
async function holdersOf(world: World, team: Team, except: Person): Promise<Person[]> {
  const { rows } = await world.sql.query(
    `select a.subject from app.team_grants g join app.accounts a on a.id = g.account_id
      where g.team_id = $1 and a.subject <> $2`,
    [team.id, except.subject],
  );
  return rows.map(({ subject }) => ({ subject, email: "", token: "" }));
}

async function againstDirectories(world: World, { options }: Prepared): Promise<Principal[]> {
  const other = await newDirectory(world);
  const revoked = await newDirectory(world);
  const key = await newPaidKey(world);
  await send(world, revoked.owner, "DELETE", `/sso/${revoked.id}/scim-tokens/${revoked.tokenId}`);
  return [
    { name: "a key", credential: { token: key.token } },
    { name: "a project's token", credential: { token: newProjectToken() } },
    { name: "a session of the team's admin", credential: { token: other.owner.token } },
    { name: "the cron secret", credential: { token: CRON_SECRET } },
    {
      name: "a SCIM token that was never made",
      credential: { token: `scim_${randomBytes(32).toString("hex")}` },
    },
    { name: "a SCIM token cut short", credential: { token: options.token!.slice(0, -1) } },
    { name: "a revoked SCIM token", credential: { token: revoked.token } },
    { name: "another team's directory", credential: { token: other.token }, own: true },
  ];
}

async function againstCron(world: World): Promise<Principal[]> {
  const person = await newPerson(world);
  const key = await newPaidKey(world);
  return [
    { name: "a key", credential: { token: key.token } },
    { name: "a project's token", credential: { token: newProjectToken() } },
    { name: "a session", credential: { token: person.token } },
    { name: "a secret cut short", credential: { token: CRON_SECRET.slice(0, -1) } },
    { name: "a secret that goes on", credential: { token: `${CRON_SECRET}x` } },
    { name: "a secret in the wrong case", credential: { token: CRON_SECRET.toUpperCase() } },
    {
      name: "a secret as a password",
      credential: { headers: { authorization: `Basic ${btoa(CRON_SECRET)}` } },
    },
    { name: "a secret in another header", credential: { headers: { "x-cron-secret": CRON_SECRET } } },
  ];
}

async function againstSignatures(world: World, { options }: Prepared): Promise<Principal[]> {
  const body = options.body as string;
  const person = await newPerson(world);
  const hours = (count: number) => new Date(Date.now() + count * 3_600_000);
  const signed = (name: string, headers: Record<string, string>): Principal => ({
    name,
    credential: { headers },
  });
  return [
    { name: "a session", credential: { token: person.token } },
    { name: "the cron secret", credential: { token: CRON_SECRET } },
    signed("another secret", sign(body, { secret: `whsec_${randomBytes(24).toString("base64")}` })),
    signed("a signature of another body", sign(`${body} `)),
    signed("an old signature", sign(body, { at: hours(-1) })),
    signed("a signature of the future", sign(body, { at: hours(1) })),
    signed("the vector of the specification", {
      "webhook-id": VECTOR.id,
      "webhook-timestamp": String(VECTOR.timestamp),
      "webhook-signature": VECTOR.signature,
    }),
    signed("a signature of another id", { ...sign(body, { id: "msg_1" }), "webhook-id": "msg_2" }),
  ];
}

/** Who knows its callers by what they send turns away those who send something else. */
async function againstHolders(world: World): Promise<Principal[]> {
  const other = await newPerson(world);
  const key = await newPaidKey(world);
  const unknown = { token: `inv_${randomBytes(32).toString("base64url")}` };
  return [
    { name: "another person", credential: { token: other.token } },
    { name: "a key", credential: { token: key.token } },
    { name: "somebody with another token", credential: { body: unknown } },
    { name: "another person with another token", credential: { token: other.token, body: unknown } },
  ];
}
