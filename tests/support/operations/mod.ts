/**
 * Every operation of the service as a row: how its request is made, who may send it, and what it leaves in the
 * database. The crash matrix, the principals and the corpora are generated from these rows and the mounted routes; a
 * route without a row fails `tests/proof/operations_test.ts`. A new capability joins by adding its rows.
 */

import { eventually } from "../eventually.ts";
import type { RequestOptions, World } from "../harness.ts";
import type { Person } from "../people.ts";
import type { Role, Team } from "../teams.ts";
import type { Named, Vault } from "../vaults.ts";
import { ACCOUNT_OPERATIONS } from "./account.ts";
import { BILLING_OPERATIONS } from "./billing.ts";
import { DIRECTORY_OPERATIONS } from "./directory.ts";
import { JOB_OPERATIONS } from "./jobs.ts";
import { KEY_OPERATIONS } from "./keys.ts";
import { MARKETING_OPERATIONS } from "./marketing.ts";
import { TEAM_OPERATIONS } from "./teams.ts";
import { VAULT_OPERATIONS } from "./vaults.ts";
import { VAULT_GUEST_OPERATIONS } from "./vault_guests.ts";
import { VAULT_RELEASE_OPERATIONS } from "./vault_releases.ts";
import { WEBHOOK_OPERATIONS } from "./webhooks.ts";

/**
 * What opens a route. `anyone` is for what knows its callers by what they send, not by a header; `the public` for what
 * is for everybody.
 */
export type Credential =
  | "api key"
  | "session"
  | "SCIM token"
  | "cron secret"
  | "signature"
  | "anyone"
  | "the public"
  /** A token from a mail that was signed and is kept nowhere. */
  | "signed link"
  /** An API key in `x-api-key`, or a session, of whoever has the vault. */
  | "vault owner"
  /** The same, by something that only the living owner has: a session, and for some a key that may check in. */
  | "living vault owner"
  /** The token of an heir or guardian, from a mail, in the body. */
  | "vault token";

/** One request, ready to be sent by whoever may. */
export interface Prepared {
  path: string;
  options: RequestOptions;
  /** What may be shown to nobody but the rightful: ids, names, hashes. */
  canaries: string[];
  /** Ids of the rightful owner's rows, to see whether anything of theirs was touched. */
  owned: string[];
  /** The team that the request is about, for the members of lower roles and those who have left. */
  team?: Team;
  /** The person whose session is used. */
  person?: Person;
  /** The vault that the request is about, and who comes with a token. */
  vault?: Vault;
  named?: Named;
  /** How often the effect is in the database. Left out where there is none. */
  count?(): Promise<number>;
  /** What must be right once the request has been repeated without a fault. */
  check?(): Promise<void>;
  /** Lets the time pass that a repetition may have to wait for. */
  lapse?(): Promise<void>;
}

/** A row. */
export interface Operation {
  /** As it is mounted: `POST /snapshot`. */
  route: string;
  /** What it does, for the reader of a failure. */
  name: string;
  /** Which function mounts it; the agent-state one unless told otherwise. */
  app?: "vault";
  opens: Credential;
  /** The lowest role that may, in a team. */
  role?: Role;
  /** Status of success. */
  status: number;
  /** What a stranger may be told beside 401, 403 and 404. */
  turnedAway?: number;
  /**
   * What becomes of repetitions: `once` leaves one effect, however often it is sent; `each` one for every request that
   * was acknowledged, and at most one for every other. Left out where nothing is changed.
   */
  effect?: "once" | "each";
  /** A job: what one run leaves undone is done by the next, so that success does not say that all was done. */
  job?: true;
  /** Statuses that a repetition after a success may have; the status of success unless told otherwise. */
  again?: number[];
  prepare(world: World): Promise<Prepared>;
}

/** All of them. */
export const OPERATIONS: readonly Operation[] = [
  ...KEY_OPERATIONS,
  ...ACCOUNT_OPERATIONS,
  ...BILLING_OPERATIONS,
  ...TEAM_OPERATIONS,
  ...WEBHOOK_OPERATIONS,
  ...DIRECTORY_OPERATIONS,
  ...JOB_OPERATIONS,
  ...MARKETING_OPERATIONS,
  ...VAULT_OPERATIONS,
  ...VAULT_RELEASE_OPERATIONS,
  ...VAULT_GUEST_OPERATIONS,
];

/** The method of an operation's route. */
export function methodOf({ route }: Operation): string {
  return route.slice(0, route.indexOf(" "));
}

type Ask<Told> = (method: string, path: string, options?: RequestOptions) => Promise<Told>;

/** Sends an operation's request to the function that mounts it. */
export function sendTo<Told>(
  service: { request: Ask<Told>; requestVault: Ask<Told> },
  operation: Operation,
  path: string,
  options: RequestOptions,
): Promise<Told> {
  const ask = operation.app === "vault" ? service.requestVault : service.request;
  return ask(methodOf(operation), path, options);
}

/**
 * Runs a job until it is done, as its schedule does. One run is not enough where a transaction that was ended still holds
 * what it had locked: Postgres tells of the end before it lets go, and jobs pass over what somebody holds.
 */
export async function finishJob(
  { count, lapse }: Prepared,
  run: () => Promise<unknown>,
): Promise<void> {
  await eventually("a later run does what is left", async () => {
    if (await count!() > 0) return true;
    await lapse?.();
    await run();
    return false;
  });
}

/** The operations that change something. */
export function mutating(): (Operation & { effect: "once" | "each" })[] {
  return OPERATIONS.filter((each): each is Operation & { effect: "once" | "each" } =>
    each.effect !== undefined
  );
}
