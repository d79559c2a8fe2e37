/**
 * Every operation of the service as a row: how its request is made, who may send it, and what it leaves in the
 * database. The crash matrix, the principals and the corpora are generated from these rows and the mounted routes; a
 * route without a row fails `tests/proof/operations_test.ts`. A new capability joins by adding its rows.
 */

import type { RequestOptions, World } from "../harness.ts";
import type { Person } from "../people.ts";
import type { Role, Team } from "../teams.ts";
import { ACCOUNT_OPERATIONS } from "./account.ts";
import { BILLING_OPERATIONS } from "./billing.ts";
import { DIRECTORY_OPERATIONS } from "./directory.ts";
import { JOB_OPERATIONS } from "./jobs.ts";
import { KEY_OPERATIONS } from "./keys.ts";
import { TEAM_OPERATIONS } from "./teams.ts";
import { WEBHOOK_OPERATIONS } from "./webhooks.ts";

/** What opens a route. `anyone` is for what knows its callers by what they send, not by a header. */
export type Credential = "api key" | "session" | "SCIM token" | "cron secret" | "signature" | "anyone";

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
];

/** The method of an operation's route. */
export function methodOf({ route }: Operation): string {
  return route.slice(0, route.indexOf(" "));
}

/** The operations that change something. */
export function mutating(): (Operation & { effect: "once" | "each" })[] {
  return OPERATIONS.filter((each): each is Operation & { effect: "once" | "each" } =>
    each.effect !== undefined
  );
}
