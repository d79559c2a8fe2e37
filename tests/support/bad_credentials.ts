/** Credentials that are refused, by the middleware that looks at them. */

import { mintLiveKey } from "../../supabase/functions/_shared/domain/credential.ts";
import type { ErrorCode } from "../../supabase/functions/_shared/errors.ts";
import { newDirectory } from "./directory.ts";
import { newKeyOf, newPaidKey } from "./factories.ts";
import type { World } from "./harness.ts";
import { newPerson } from "./people.ts";
import { bearer, type ReferenceService } from "./reference_service.ts";
import { newSubkey, newTeam } from "./teams.ts";

type Headers = Record<string, string>;

/** Headers that are refused with this code, and which service they are sent to. */
export interface BadCredential {
  code: ErrorCode;
  headers: Headers;
  target: ReferenceService;
}

type Case = [ErrorCode, Headers];
const NO_BEARER: Case = ["missing_or_invalid_bearer_token", { authorization: "Basic Zm9v" }];

/** Every way that a class of callers is refused. `bare` is a service that has nothing set up. */
export async function badCredentials(
  world: World,
  middleware: string | undefined,
  service: ReferenceService,
  bare: ReferenceService,
): Promise<BadCredential[]> {
  const to = (target: ReferenceService) => ([code, headers]: Case) => ({ code, headers, target });
  switch (middleware) {
    case "receiveBillingEvent":
      return [
        to(service)(["invalid_webhook_signature", { "webhook-signature": "v1,AAAA" }]),
        to(bare)(["billing_not_configured", {}]),
      ];
    case "requireCronSecret":
      return [
        to(service)(["invalid_cron_secret", bearer("wrong")]),
        to(bare)(["cron_not_configured", {}]),
      ];
    case "requireScimToken":
      return (await badScimTokens(world)).map(to(service));
    case "requireSession":
    case "acceptSession":
      return (await badSessions(world)).map(to(service));
    case "requireApiKey":
      return [NO_BEARER, ...await badKeys(world, bearer)].map(to(service));
    case "requireOwner":
    case "requireLivingOwner":
      return (await badOwners(world, middleware)).map(to(service));
    case undefined:
      return [];
  }
  throw new Error(`nobody knows whom ${middleware} refuses`);
}

async function badScimTokens(world: World): Promise<Case[]> {
  const directory = await newDirectory(world);
  const path = `/sso/${directory.id}/scim-tokens/${directory.tokenId}`;
  await world.request("DELETE", path, { token: directory.owner.token });
  return [
    NO_BEARER,
    ["invalid_scim_token", bearer("scim_nothing")],
    ["scim_token_revoked", bearer(directory.token)],
  ];
}

async function badSessions(world: World): Promise<Case[]> {
  const live = await newPaidKey(world);
  return [
    NO_BEARER,
    ["session_jwt_required", bearer(live.token)],
    ["invalid_session", bearer("a.b.c")],
  ];
}

async function badKeys(world: World, toHeaders: (key: string) => Headers): Promise<Case[]> {
  const live = await newPaidKey(world);
  const revoked = await newKeyOf(world, live.accountId);
  await world.sql.query("update app.api_keys set revoked_at = now() where id = $1", [revoked.keyId]);
  const button = await newKeyOf(world, live.accountId);
  await world.sql.query("update app.api_keys set scopes = '{vault:check_in}' where id = $1", [button.keyId]);
  const orphan = await newPaidKey(world);
  await world.sql.query("delete from app.owners where id = $1", [orphan.accountId]);
  const unknown = mintLiveKey((count) => crypto.getRandomValues(new Uint8Array(count)));
  return [
    ["invalid_api_key", toHeaders(unknown)],
    ["api_key_revoked", toHeaders(revoked.token)],
    ["owner_not_found", toHeaders(orphan.token)],
    ["forbidden_scope", toHeaders(button.token)],
  ];
}

async function badOwners(world: World, middleware: string): Promise<Case[]> {
  const person = await newPerson(world);
  const subkey = await newSubkey(world, await newTeam(world, person), person);
  const keys = await badKeys(world, (key) => ({ "x-api-key": key }));
  return [
    ["missing_or_invalid_api_key", {}],
    ["invalid_session", bearer("a.b.c")],
    ["user_key_required", { "x-api-key": subkey.token }],
    // A key that may check in is refused by what it cannot do, not by the class.
    ...keys.filter(([code]) => middleware === "requireOwner" || code !== "forbidden_scope"),
  ];
}
