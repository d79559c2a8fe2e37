/** Users of a team's directory. RFC 7644, section 3; spec 4.8. */

import type { AppContext } from "../../_shared/context.ts";
import { patchUser } from "../domain/scim_patch.ts";
import {
  project,
  readResource,
  showUser,
  type StoredUser,
  toResource,
  toUserChange,
  type UserChange,
} from "../domain/scim_resource.ts";
import { USER_TYPE } from "../domain/scim_schemas.ts";
import { changeScimUser, spellUser } from "../flows/change_scim_user.ts";
import { refuseFaults } from "../flows/scim_faults.ts";
import { searchDirectory } from "../flows/search_scim.ts";
import { takeSeat } from "../flows/take_seat.ts";
import {
  hasVersion,
  PATCH_BODY,
  readIfMatch,
  readScimBody,
  readScimId,
  readSearch,
  readSelection,
  USER_BODY,
} from "../middleware/scim_request.ts";
import { answerScim, scimBase } from "../middleware/speak_scim.ts";

/** GET /scim/v2/Users: 200 with a page of the users that the filter lets through. */
export async function findScimUsers(c: AppContext): Promise<Response> {
  const search = await readSearch(c);
  const { scimTokenHash, platform } = c.var;
  return answerScim(c, await searchDirectory(platform.db, scimTokenHash, [USER_TYPE], search, scimBase(c)));
}

/** POST /scim/v2/Users: 201 with the new user; an active one is a member, and takes a seat. */
export async function createScimUser(c: AppContext): Promise<Response> {
  const body = await readScimBody(c, USER_BODY);
  const change = refuseFaults(() => toUserChange(readResource(USER_TYPE, body), true));
  const id = crypto.randomUUID();
  const { platform, settings, scimTokenHash } = c.var;
  const user = await takeSeat(
    platform,
    settings,
    (seats) =>
      platform.db.call<StoredUser>("create_scim_user", {
        p_token_hash: scimTokenHash,
        p_user_id: id,
        p_user: spellUser(change),
        p_seats: seats,
      }),
  );
  return answerUser(c, user, 201);
}

/** GET /scim/v2/Users/:id: 200 with the user, 304 when the client has this version. */
export async function readScimUser(c: AppContext): Promise<Response> {
  const args = { p_token_hash: c.var.scimTokenHash, p_user_id: readScimId(c) };
  const user = await c.var.platform.db.call<StoredUser>("read_scim_user", args);
  return hasVersion(c, user.version) ? c.body(null, 304) : answerUser(c, user);
}

/** PUT /scim/v2/Users/:id: 200 with the user as given. One that does not say whether it is active stays as it is. */
export async function replaceScimUser(c: AppContext): Promise<Response> {
  const body = await readScimBody(c, USER_BODY);
  return await change(c, ({ active }) => toUserChange(readResource(USER_TYPE, body), active));
}

/** PATCH /scim/v2/Users/:id: 200 with the user as changed. */
export async function patchScimUser(c: AppContext): Promise<Response> {
  const body = await readScimBody(c, PATCH_BODY);
  return await change(c, (user) => toUserChange(patchUser(toResource(user), body), user.active));
}

/** DELETE /scim/v2/Users/:id: 204; whoever it was is no member any more. Errors: `last_admin`. */
export async function deleteScimUser(c: AppContext): Promise<Response> {
  await c.var.platform.db.call("delete_scim_user", {
    p_token_hash: c.var.scimTokenHash,
    p_user_id: readScimId(c),
    p_version: readIfMatch(c) ?? null,
    p_change_id: crypto.randomUUID(),
  });
  return c.body(null, 204);
}

async function change(c: AppContext, decide: (user: StoredUser) => UserChange): Promise<Response> {
  const { platform, settings, scimTokenHash } = c.var;
  const target = { tokenHash: scimTokenHash, id: readScimId(c), version: readIfMatch(c) };
  return answerUser(c, await changeScimUser(platform, settings, target, decide));
}

function answerUser(c: AppContext, user: StoredUser, status: 200 | 201 = 200): Response {
  const shown = project(USER_TYPE, showUser(user, scimBase(c)), readSelection(c));
  return answerScim(c, shown, status, user.version);
}
