/** A team with a directory: what Okta or Entra would be. */

import assert from "node:assert/strict";
import type { Answer, RequestOptions, World } from "./harness.ts";
import { newPerson, type Person } from "./people.ts";
import { newTeam, send, type Service, subscribe, type Team } from "./teams.ts";

export const PATCH_SCHEMA = "urn:ietf:params:scim:api:messages:2.0:PatchOp";
export const USER_SCHEMA = "urn:ietf:params:scim:schemas:core:2.0:User";
export const ENTERPRISE_SCHEMA = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User";
export const GROUP_SCHEMA = "urn:ietf:params:scim:schemas:core:2.0:Group";

/** A team on the enterprise plan, and a token of its directory. */
export interface Directory extends Team {
  token: string;
  tokenId: string;
  /** Sends a SCIM request as the directory. */
  scim(method: string, path: string, body?: unknown, options?: RequestOptions): Promise<Answer>;
}

/** A new team with a directory. */
export async function newDirectory(world: World, { seats = 1_000_000 } = {}): Promise<Directory> {
  const team = await newTeam(world);
  await subscribe(world, team.owner, "enterprise", { seats });
  return await openDirectory(world, team);
}

/** A directory for a team that has the plan. */
export async function openDirectory(world: World, team: Team, service: Service = world): Promise<Directory> {
  const made = await send(world, team.owner, "POST", `/sso/${team.id}/scim-tokens`, { name: "directory" });
  assert.equal(made.status, 201, made.text);
  const token: string = made.body.raw_secret;
  return {
    ...team,
    token,
    tokenId: made.body.id,
    scim: (method, path, body, { headers, ...options } = {}) =>
      service.request(method, `/scim/v2${path}`, {
        token,
        body,
        headers: { "content-type": "application/scim+json", ...headers },
        ...options,
      }),
  };
}

/** The same directory through another service. */
export function through(directory: Directory, service: Service): Directory {
  return {
    ...directory,
    scim: (method, path, body) =>
      service.request(method, `/scim/v2${path}`, { token: directory.token, body }),
  };
}

/** A user as Okta would send one. */
export function userBody(email: string, over: Record<string, unknown> = {}): Record<string, unknown> {
  return {
    schemas: [USER_SCHEMA],
    userName: email,
    name: { givenName: "Jane", familyName: "Doe" },
    emails: [{ primary: true, value: email, type: "work" }],
    active: true,
    ...over,
  };
}

/** Provisions somebody; returns the user's id. */
export async function provision(
  directory: Directory,
  email: string,
  over: Record<string, unknown> = {},
): Promise<string> {
  const made = await directory.scim("POST", "/Users", userBody(email, over));
  assert.equal(made.status, 201, made.text);
  return made.body.id;
}

/** Somebody who was provisioned and has signed in since. */
export async function newProvisioned(
  world: World,
  directory: Directory,
): Promise<Person & { userId: string }> {
  const person = await newPerson(world);
  const userId = await provision(directory, person.email);
  const teams = await send(world, person, "GET", "/teams");
  assert.equal(teams.body.teams.length, 1, teams.text);
  return { ...person, userId };
}

/** A patch of operations. */
export function patchBody(...operations: Record<string, unknown>[]): Record<string, unknown> {
  return { schemas: [PATCH_SCHEMA], Operations: operations };
}

/** Deactivates a user, as Okta does. */
export function deactivate(directory: Directory, userId: string): Promise<Answer> {
  return directory.scim("PATCH", `/Users/${userId}`, patchBody({ op: "replace", value: { active: false } }));
}

/** Makes a group of users; returns its id. */
export async function newGroup(directory: Directory, name: string, userIds: string[] = []): Promise<string> {
  const body = { schemas: [GROUP_SCHEMA], displayName: name, members: userIds.map((value) => ({ value })) };
  const made = await directory.scim("POST", "/Groups", body);
  assert.equal(made.status, 201, made.text);
  return made.body.id;
}

/** Says which groups give which roles. */
export async function mapGroups(world: World, team: Team, over: Record<string, unknown>): Promise<void> {
  const saved = await send(world, team.owner, "PUT", `/sso/${team.id}/config`, over);
  assert.equal(saved.status, 200, saved.text);
}

/** The roster, by member id. */
// deno-lint-ignore no-explicit-any
export async function rosterOf(world: World, team: Team): Promise<Map<string, any>> {
  const { body } = await send(world, team.owner, "GET", `/teams/${team.id}/members`);
  // deno-lint-ignore no-explicit-any
  return new Map(body.members.map((member: any) => [member.member_id, member]));
}

/** Asserts that SCIM refused with this status and type, in its own schema. */
export function assertScimError(answer: Answer, status: number, scimType?: string, code?: string): void {
  assert.equal(answer.status, status, answer.text);
  assert.equal(answer.headers.get("content-type"), "application/scim+json");
  assert.deepEqual(answer.body.schemas, ["urn:ietf:params:scim:api:messages:2.0:Error"]);
  assert.equal(answer.body.status, String(status));
  assert.equal(answer.body.scimType, scimType);
  if (code !== undefined) assert.ok(answer.body.detail.startsWith(`${code}: `), answer.body.detail);
}
