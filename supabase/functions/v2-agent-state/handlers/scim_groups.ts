/** Groups of a team's directory. RFC 7644, section 3; spec 4.8. */

import type { AppContext } from "../../_shared/context.ts";
import { type GroupChange, patchGroup, readMembers } from "../domain/scim_patch.ts";
import {
  type Fields,
  project,
  readResource,
  showGroup,
  type StoredGroup,
  wantsMembers,
} from "../domain/scim_resource.ts";
import { GROUP_TYPE } from "../domain/scim_schemas.ts";
import { ScimFault } from "../domain/scim_fault.ts";
import { refuseFaults } from "../flows/scim_faults.ts";
import { searchDirectory } from "../flows/search_scim.ts";
import {
  GROUP_BODY,
  hasVersion,
  PATCH_BODY,
  readIfMatch,
  readScimBody,
  readScimId,
  readSearch,
  readSelection,
} from "../middleware/scim_request.ts";
import { answerScim, scimBase } from "../middleware/speak_scim.ts";

/** GET /scim/v2/Groups: 200 with a page of the groups that the filter lets through. */
export async function findScimGroups(c: AppContext): Promise<Response> {
  const search = await readSearch(c);
  const { scimTokenHash, platform } = c.var;
  return answerScim(c, await searchDirectory(platform.db, scimTokenHash, [GROUP_TYPE], search, scimBase(c)));
}

/** POST /scim/v2/Groups: 201 with the new group. */
export async function createScimGroup(c: AppContext): Promise<Response> {
  const { displayName, externalId, members } = readGroup(await readScimBody(c, GROUP_BODY));
  const group = await c.var.platform.db.call<StoredGroup>("create_scim_group", {
    p_token_hash: c.var.scimTokenHash,
    p_group_id: crypto.randomUUID(),
    p_display_name: displayName,
    p_external_id: externalId,
    p_member_ids: members,
  });
  return answerGroup(c, group, 201);
}

/** GET /scim/v2/Groups/:id: 200 with the group, 304 when the client has this version. */
export async function readScimGroup(c: AppContext): Promise<Response> {
  const group = await c.var.platform.db.call<StoredGroup>("read_scim_group", {
    p_token_hash: c.var.scimTokenHash,
    p_group_id: readScimId(c),
    p_members: wantsMembers(readSelection(c)),
  });
  return hasVersion(c, group.version) ? c.body(null, 304) : answerGroup(c, group);
}

/** PUT /scim/v2/Groups/:id: 200 with the group as given. */
export async function replaceScimGroup(c: AppContext): Promise<Response> {
  const { displayName, externalId, members } = readGroup(await readScimBody(c, GROUP_BODY));
  const change = { displayName, externalId, only: true, added: members, removed: [] };
  return answerGroup(c, await changeGroup(c, change, wantsMembers(readSelection(c))));
}

/** PATCH /scim/v2/Groups/:id: 204; 200 with the group when the client names attributes that it wants to see. */
export async function patchScimGroup(c: AppContext): Promise<Response> {
  const body = await readScimBody(c, PATCH_BODY);
  const isShown = c.req.query("attributes") !== undefined;
  const group = await changeGroup(
    c,
    refuseFaults(() => patchGroup(body)),
    isShown && wantsMembers(readSelection(c)),
  );
  return isShown ? answerGroup(c, group) : c.body(null, 204);
}

/** DELETE /scim/v2/Groups/:id: 204; its members keep the roles that other groups give them. */
export async function deleteScimGroup(c: AppContext): Promise<Response> {
  await c.var.platform.db.call("delete_scim_group", {
    p_token_hash: c.var.scimTokenHash,
    p_group_id: readScimId(c),
    p_version: readIfMatch(c) ?? null,
    p_change_id: crypto.randomUUID(),
  });
  return c.body(null, 204);
}

function readGroup(body: Fields): { displayName: string; externalId: string | null; members: string[] } {
  return refuseFaults(() => {
    const { displayName, externalId } = readResource(GROUP_TYPE, body);
    if (typeof displayName !== "string") throw new ScimFault("invalid_scim_value", "displayName is required");
    const key = Object.keys(body).find((name) => name.toLowerCase() === "members");
    const members = readMembers(key === undefined ? undefined : body[key]);
    return { displayName, externalId: typeof externalId === "string" ? externalId : null, members };
  });
}

function changeGroup(c: AppContext, change: GroupChange, showMembers: boolean): Promise<StoredGroup> {
  return c.var.platform.db.call<StoredGroup>("change_scim_group", {
    p_token_hash: c.var.scimTokenHash,
    p_group_id: readScimId(c),
    p_version: readIfMatch(c) ?? null,
    p_display_name: change.displayName ?? null,
    p_set_external: change.externalId !== undefined,
    p_external_id: change.externalId ?? null,
    p_only: change.only,
    p_added: change.added,
    p_removed: change.removed,
    p_change_id: crypto.randomUUID(),
    p_members: showMembers,
  });
}

function answerGroup(c: AppContext, group: StoredGroup, status: 200 | 201 = 200): Response {
  const shown = project(GROUP_TYPE, showGroup(group, scimBase(c)), readSelection(c));
  return answerScim(c, shown, status, group.version);
}
