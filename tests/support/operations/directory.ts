/** Operations of single sign-on, and of a team's directory over SCIM. */

import {
  type Directory,
  GROUP_SCHEMA,
  mapGroups,
  newDirectory,
  newGroup,
  patchBody,
  provision,
  userBody,
} from "../directory.ts";
import type { World } from "../harness.ts";
import { accountIdOf } from "../people.ts";
import { counter } from "./counting.ts";
import type { Operation, Prepared } from "./mod.ts";

interface Holder {
  directory: Directory;
  userId: string;
  groupId: string;
  secrets: Pick<Prepared, "canaries" | "owned" | "team" | "person">;
}

/** A team with a directory of one user and one group. */
async function newHolder(world: World): Promise<Holder> {
  const directory = await newDirectory(world);
  const email = `canary-${crypto.randomUUID()}@example.com`;
  const userId = await provision(directory, email);
  const groupId = await newGroup(directory, `canary-${crypto.randomUUID()}`, [userId]);
  await mapGroups(world, directory, { default_role: "read" });
  const accountId = await accountIdOf(world, directory.owner);
  const canaries = [directory.id, accountId, userId, groupId, email, directory.token, directory.tokenId];
  const owned = [directory.id, accountId, userId, groupId];
  return {
    directory,
    userId,
    groupId,
    secrets: { canaries, owned, team: directory, person: directory.owner },
  };
}

/** What a request is made of, where it differs from a GET of nothing. */
interface Part {
  path: string;
  body?: unknown;
  sql?: string;
  values?: unknown[];
}

type Row = Pick<Operation, "route" | "name" | "status" | "effect" | "again" | "role">;

function sso(row: Row, part: (holder: Holder, world: World) => Part): Operation {
  return {
    opens: "session",
    role: "admin",
    ...row,
    async prepare(world) {
      const holder = await newHolder(world);
      const { path, body, sql, values = [] } = part(holder, world);
      return {
        ...holder.secrets,
        path: `/sso/${holder.directory.id}${path}`,
        options: { token: holder.directory.owner.token, ...(body === undefined ? {} : { body }) },
        ...(sql === undefined ? {} : { count: counter(world, sql, [holder.directory.id, ...values]) }),
      };
    },
  };
}

function scim(row: Row, part: (holder: Holder, world: World) => Part): Operation {
  return {
    opens: "SCIM token",
    ...row,
    async prepare(world) {
      const holder = await newHolder(world);
      const { path, body, sql, values = [] } = part(holder, world);
      return {
        ...holder.secrets,
        path: `/scim/v2${path}`,
        options: {
          token: holder.directory.token,
          ...(body === undefined ? {} : { body, headers: { "content-type": "application/scim+json" } }),
        },
        ...(sql === undefined ? {} : { count: counter(world, sql, [holder.directory.id, ...values]) }),
      };
    },
  };
}

const read = (route: string) => ({ route, name: "read", status: 200 });
const USERS = "select count(*) as n from app.scim_users where team_id = $1 and";
const GROUPS = "select count(*) as n from app.scim_groups where team_id = $1 and";

export const DIRECTORY_OPERATIONS: Operation[] = [
  sso(read("GET /sso/:teamId/config"), () => ({ path: "/config" })),
  sso(
    { route: "PUT /sso/:teamId/config", name: "configure single sign-on", status: 200, effect: "once" },
    () => ({
      path: "/config",
      body: { default_role: "write", group_roles: { Admins: "admin" } },
      sql: "select count(*) as n from app.sso_configs where team_id = $1 and default_role = 'write'",
    }),
  ),
  sso(
    { route: "POST /sso/:teamId/scim-tokens", name: "make a SCIM token", status: 201, effect: "each" },
    () => ({
      path: "/scim-tokens",
      body: { name: "new" },
      sql: "select count(*) as n from app.scim_tokens where team_id = $1 and name = 'new'",
    }),
  ),
  sso(read("GET /sso/:teamId/scim-tokens"), () => ({ path: "/scim-tokens" })),
  sso(
    {
      route: "DELETE /sso/:teamId/scim-tokens/:id",
      name: "revoke a SCIM token",
      status: 200,
      effect: "once",
    },
    ({ directory }) => ({
      path: `/scim-tokens/${directory.tokenId}`,
      sql: "select count(*) as n from app.scim_tokens where team_id = $1 and revoked_at is not null",
    }),
  ),
  ...["ServiceProviderConfig", "ResourceTypes", "Schemas", "Users", "Groups"].map((name) =>
    scim(read(`GET /scim/v2/${name}`), () => ({ path: `/${name}` }))
  ),
  scim(read("GET /scim/v2/ResourceTypes/:id"), () => ({ path: "/ResourceTypes/User" })),
  scim(read("GET /scim/v2/Schemas/:id"), () => ({ path: `/Schemas/${GROUP_SCHEMA}` })),
  scim(read("GET /scim/v2/Users/:id"), ({ userId }) => ({ path: `/Users/${userId}` })),
  scim(read("GET /scim/v2/Groups/:id"), ({ groupId }) => ({ path: `/Groups/${groupId}` })),
  ...["", "/Users", "/Groups"].map((place) =>
    scim(read(`POST /scim/v2${place}/.search`), () => ({
      path: `${place}/.search`,
      body: { filter: "meta.created pr", startIndex: 1, count: 10, attributes: ["id"] },
    }))
  ),
  scim(
    // Whoever is sent again is there already, and is not made twice.
    { route: "POST /scim/v2/Users", name: "provision a user", status: 201, effect: "once", again: [409] },
    () => ({
      path: "/Users",
      body: userBody("new@example.com"),
      sql: `${USERS} user_name = 'new@example.com'`,
    }),
  ),
  scim(
    { route: "PUT /scim/v2/Users/:id", name: "replace a user", status: 200, effect: "once" },
    ({ userId, secrets }) => ({
      path: `/Users/${userId}`,
      body: userBody(secrets.canaries[4]!, { externalId: "changed" }),
      sql: `${USERS} external_id = 'changed'`,
    }),
  ),
  scim(
    { route: "PATCH /scim/v2/Users/:id", name: "deactivate a user", status: 200, effect: "once" },
    ({ userId }) => ({
      path: `/Users/${userId}`,
      body: patchBody({ op: "replace", path: "active", value: false }),
      sql: `${USERS} not active`,
    }),
  ),
  scim(
    { route: "DELETE /scim/v2/Users/:id", name: "remove a user", status: 204, effect: "once", again: [404] },
    ({ userId }) => ({
      path: `/Users/${userId}`,
      sql: "select (count(*) = 0)::int as n from app.scim_users where team_id = $1",
    }),
  ),
  scim(
    { route: "POST /scim/v2/Groups", name: "make a group", status: 201, effect: "once", again: [409] },
    ({ userId }) => ({
      path: "/Groups",
      body: { schemas: [GROUP_SCHEMA], displayName: "new", members: [{ value: userId }] },
      sql: `${GROUPS} display_name = 'new'`,
    }),
  ),
  scim(
    { route: "PUT /scim/v2/Groups/:id", name: "replace a group", status: 200, effect: "once" },
    ({ groupId }) => ({
      path: `/Groups/${groupId}`,
      body: { schemas: [GROUP_SCHEMA], displayName: "changed", members: [] },
      sql: `${GROUPS} display_name = 'changed'`,
    }),
  ),
  scim(
    { route: "PATCH /scim/v2/Groups/:id", name: "rename a group", status: 204, effect: "once" },
    ({ groupId }) => ({
      path: `/Groups/${groupId}`,
      body: patchBody({ op: "replace", path: "displayName", value: "changed" }),
      sql: `${GROUPS} display_name = 'changed'`,
    }),
  ),
  scim(
    {
      route: "DELETE /scim/v2/Groups/:id",
      name: "remove a group",
      status: 204,
      effect: "once",
      again: [404],
    },
    ({ groupId }) => ({
      path: `/Groups/${groupId}`,
      sql: "select (count(*) = 0)::int as n from app.scim_groups where team_id = $1",
    }),
  ),
];
