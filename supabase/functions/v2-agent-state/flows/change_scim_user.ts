/** Changes a user of a directory: read → decide → replace, again when somebody else was quicker. */

import { ApiError } from "../../_shared/errors.ts";
import type { Platform, SqlArguments } from "../../_shared/platform/mod.ts";
import type { StoredUser, UserChange } from "../domain/scim_resource.ts";
import type { DeliverySettings } from "../../_shared/flows/deliver_mail.ts";
import { refuseFaults } from "./scim_faults.ts";
import { takeSeat } from "./take_seat.ts";

const TRIES_MAX = 10;

/** Which user, as whom, and of which version it must be (undefined: any). */
export interface UserTarget {
  tokenHash: Uint8Array;
  id: string;
  version: number | undefined;
}

/**
 * Makes of a user what `decide` says, and returns it as it is then. Errors: `precondition_failed` when it is of another
 * version; what the database refuses, and what `decide` finds wrong.
 */
export async function changeScimUser(
  platform: Platform,
  settings: DeliverySettings,
  { tokenHash, id, version }: UserTarget,
  decide: (user: StoredUser) => UserChange,
): Promise<StoredUser> {
  const target = { p_token_hash: tokenHash, p_user_id: id };
  for (let tries = 1;; tries++) {
    const user = await platform.db.call<StoredUser>("read_scim_user", target);
    if (version !== undefined && version !== user.version) throw new ApiError("precondition_failed");
    const change = spellUser(refuseFaults(() => decide(user)));
    const args = { ...target, p_version: user.version, p_user: change, p_change_id: crypto.randomUUID() };
    try {
      return await replace(platform, settings, args);
    } catch (error) {
      const overtaken = error instanceof ApiError && error.code === "precondition_failed";
      if (!overtaken || version !== undefined) throw error;
      if (tries === TRIES_MAX) throw new ApiError("service_unavailable", { reason: "changed_meanwhile" });
    }
  }
}

/** A user as the database's functions take it. */
export function spellUser(change: UserChange): string {
  return JSON.stringify(change);
}

function replace(platform: Platform, settings: DeliverySettings, args: SqlArguments): Promise<StoredUser> {
  return takeSeat(
    platform,
    settings,
    (seats) => platform.db.call<StoredUser>("replace_scim_user", { ...args, p_seats: seats }),
  );
}
