/** Everybody who might come to a vault and may not, and who have links from mails that are not for this. */

import { Buffer } from "node:buffer";
import { randomBytes } from "node:crypto";
import { mintLiveKey } from "../../supabase/functions/_shared/domain/credential.ts";
import { addressHash } from "../../supabase/functions/_shared/domain/mail.ts";
import { signToken } from "../../supabase/functions/_shared/domain/signed_token.ts";
import { CRON_SECRET } from "./everything.ts";
import { newPaidKey, newProjectToken } from "./factories.ts";
import { createForger, now, STRANGER } from "./forger.ts";
import type { World } from "./harness.ts";
import { MAIL_SETTINGS } from "./jobs.ts";
import type { Operation, Prepared } from "./operations/mod.ts";
import { newPerson, type Person } from "./people.ts";
import type { Principal } from "./principals.ts";
import { newSubkey, newTeam } from "./teams.ts";
import {
  askByToken,
  invite,
  mintToken,
  nameSomebody,
  newApiKey,
  newVault,
  type Role,
  type Vault,
} from "./vaults.ts";

const CHECK_IN = ["vault:check_in"];
/** What a key that may check in is for. */
const PROVES_LIFE = /\/(?:check-in|release\/veto)$/;

const byKey = (name: string, key: string): Principal => ({
  name,
  credential: { headers: { "x-api-key": key } },
});
const bySession = (name: string, token: string): Principal => ({ name, credential: { token } });

/** Against what is the owner's. */
export async function againstVaultOwners(
  world: World,
  { opens, route }: Operation,
  { vault }: Prepared,
): Promise<Principal[]> {
  const { owner, key } = vault!;
  const other = await newPerson(world);
  const otherKey = await newApiKey(world, other);
  const minted = mintLiveKey((count) => randomBytes(count));
  const team = await newTeam(world, owner);
  const subkey = await newSubkey(world, team, owner);
  const living = opens === "living vault owner";
  // Nobody is named any more once a vault is released: an heir who is there does then.
  const heir = await mintToken(vault!, await somebodyIn(vault!, "heir"));
  const { guardian } = await nameBoth(await newVault(world, {}, Date.now()));
  return [
    byKey("a key that was never issued", minted),
    byKey("a key cut short", key.slice(0, -1)),
    byKey("a key in the wrong case", key.toUpperCase()),
    byKey("a project's token", newProjectToken()),
    byKey("the cron secret", CRON_SECRET),
    byKey("a session in the wrong header", owner.token),
    bySession("a key in the wrong header", key),
    byKey("a revoked key of the owner", await revokedKey(world, owner)),
    byKey("a sub-key of the owner's team", subkey.token),
    byKey("an heir's token as a key", heir),
    byKey("a token of another vault's guardian as a key", guardian),
    bySession("an heir's token as a session", heir),
    bySession("a token of another vault's guardian as a session", guardian),
    ...await forgedSessions(world, owner),
    { ...byKey("another person's key", otherKey), own: true },
    { ...bySession("another person", other.token), own: true },
    // Another's key that may check in may do so for that person's vaults, and this is none of them.
    byKey("another person's key that may check in", await newApiKey(world, other, CHECK_IN)),
    byKey("a revoked key of the owner that might check in", await revokedKey(world, owner, CHECK_IN)),
    ...living ? [byKey("an ordinary key of the owner", key)] : [],
    ...living && PROVES_LIFE.test(route)
      ? []
      : [byKey("a key of the owner that may only check in", await newApiKey(world, owner, CHECK_IN))],
  ];
}

/** Against what heirs and guardians do with their tokens. */
export async function againstVaultGuests(
  world: World,
  { route }: Operation,
  { vault, named, options }: Prepared,
): Promise<Principal[]> {
  const elsewhere = await newVault(world, {}, Date.now());
  const others = await nameBoth(elsewhere);
  const by = (name: string, token: string): Principal => ({
    name,
    credential: { body: { ...options.body as object, token } },
  });
  vault!.clock.ms = Date.now();
  const principals: Principal[] = [
    by("a token that was never made", `inv_${randomBytes(32).toString("base64url")}`),
    by("a token cut short", named!.token.slice(0, -1)),
    by("a token in the wrong case", named!.token.toUpperCase()),
    by("a key of the owner", vault!.key),
    by("the cron secret", CRON_SECRET),
    { ...by("an heir of another vault", others.heir), own: true },
    { ...by("a guardian of another vault", others.guardian), own: true },
    { name: "the owner's key in the header, and no good token", credential: keyAlone(vault!, options.body) },
  ];
  // Nobody is named any more once a vault is released.
  if (!/\/pick-up/.test(route)) {
    const gone = await invite(vault!, "heir");
    await askByToken(vault!, gone, "/invitation/decline");
    principals.push(
      by("an heir who has declined", gone.token),
      by("the token of a mail before the one that was sent again", await staleToken(vault!)),
    );
  }
  if (route.startsWith("POST /api/vault/invitation")) return principals;
  // What one role may the other may not, and nobody may anything who is not in.
  const role = named!.role === "heir" ? "guardian" : "heir";
  principals.push(by(`a ${role} of the same vault`, await mintToken(vault!, await somebodyIn(vault!, role))));
  if (named!.role === "guardian") {
    principals.push(by("a guardian who has not accepted", (await invite(vault!, "guardian")).token));
  }
  return principals;
}

/** Somebody who is in a vault already. */
async function somebodyIn({ world, id }: Vault, role: Role): Promise<string> {
  const sql = "select id from app.vault_people where vault_id = $1 and role = $2 and status = 'confirmed'";
  return (await world.sql.query(sql, [id, role])).rows[0].id;
}

/** The owner's key opens nothing that takes a token. */
function keyAlone({ key }: Vault, body: unknown): Principal["credential"] {
  const unknown = `inv_${randomBytes(32).toString("base64url")}`;
  return { headers: { "x-api-key": key }, body: { ...body as object, token: unknown } };
}

/** Against what is done with the link of a mail. */
export function againstLinks({ route }: Operation, { options }: Prepared): Principal[] {
  const { token } = options.body as { token: string };
  const [subject, signature] = token.split(".") as [string, string];
  const [mine, others] = [MAIL_SETTINGS.linkSecrets[0]!, "another secret that signs tokens"];
  const bytes = Buffer.from(subject, "base64url");
  const purpose = route.endsWith("/confirm") ? "confirm" : "unsubscribe";
  const about = addressHash(`${crypto.randomUUID()}@example.com`);
  const by = (name: string, forged: string): Principal => ({ name, credential: { body: { token: forged } } });
  return [
    by("no signature", `${subject}.`),
    by("a token cut short", token.slice(0, -1)),
    by("a signature of nothing", `${subject}.${"A".repeat(43)}`),
    by("another subject under this signature", `${Buffer.from(about).toString("base64url")}.${signature}`),
    by("a token of another secret", signToken(purpose, bytes, others)),
    by(
      "a token for something else",
      signToken(purpose === "confirm" ? "unsubscribe" : "confirm", bytes, mine),
    ),
    by("a token of a reminder", signToken("invitation reminder", bytes, mine)),
    by("the token of an heir", `inv_${randomBytes(32).toString("base64url")}`),
  ];
}

/** What is for everybody is so whoever comes, and tells nobody anything. */
export async function amongThePublic(world: World): Promise<Principal[]> {
  const key = await newPaidKey(world);
  const person = await newPerson(world);
  return [
    bySession("a key", key.token),
    bySession("a session", person.token),
    bySession("the cron secret", CRON_SECRET),
  ].map((principal) => ({ ...principal, own: true as const }));
}

async function nameBoth(vault: Vault): Promise<{ heir: string; guardian: string }> {
  const heir = await nameSomebody(vault, "heir", { share: null });
  const guardian = await nameSomebody(vault, "guardian", { share: null });
  return { heir: heir.token, guardian: guardian.token };
}

/** A token that a later mail has made worthless. */
async function staleToken(vault: Vault): Promise<string> {
  const { id, token } = await invite(vault, "heir");
  const again = await vault.service.requestVault("POST", `/api/vault/${vault.id}/heir/${id}/resend`, {
    headers: { "x-api-key": vault.key },
  });
  if (again.status !== 200) throw new Error(again.text);
  await mintToken(vault, id);
  return token;
}

async function revokedKey(world: World, owner: Person, scopes?: string[]): Promise<string> {
  const key = await newApiKey(world, owner, scopes);
  await world.sql.query(
    "update app.api_keys set revoked_at = now() where key_hash = sha256(convert_to($1, 'UTF8'))",
    [key],
  );
  return key;
}

async function forgedSessions(world: World, { subject }: Person): Promise<Principal[]> {
  const forger = createForger(world.issuer, subject);
  const past = { iat: now() - 7200, exp: now() - 3600 };
  return [
    bySession("an expired session", await forger.token({ claims: past })),
    bySession("a session of another key", await forger.token({ key: STRANGER })),
    bySession("a session for others", await forger.token({ claims: { aud: "others" } })),
    bySession("an unsigned session", await forger.byHand({ alg: "none" }, undefined, () => new Uint8Array())),
  ];
}
