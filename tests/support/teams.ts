/** Teams and what people do in them: one line for each step of a test. */

import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { randomBytes } from "node:crypto";
import type { Database } from "../../supabase/functions/_shared/platform/mod.ts";
import { eventually } from "./eventually.ts";
import type { Answer, World } from "./harness.ts";
import { newPerson, type Person } from "./people.ts";

/** What requests are sent to: a world, or a world with some parts replaced. */
export type Service = Pick<World, "request">;

export type Role = "admin" | "write" | "read";

/** A team and who made it. */
export interface Team {
  id: string;
  owner: Person;
}

/** A public key as PEM: the server only looks at its frame. */
export const PUBLIC_KEY = `-----BEGIN PUBLIC KEY-----\n${
  Buffer.alloc(44, 7).toString("base64")
}\n-----END PUBLIC KEY-----\n`;

/** Something that looks like a wrapped key, never the same twice. */
export function wrappedKey(): string {
  return randomBytes(48).toString("base64");
}

/** Sends a request as somebody. */
export function send(service: Service, by: Person, method: string, path: string, body?: unknown) {
  return service.request(method, path, { token: by.token, body });
}

/** A well-formed POST /teams. */
export function teamBody(over: Record<string, unknown> = {}): Record<string, unknown> {
  return { name: "Night shift", owner_pubkey: PUBLIC_KEY, owner_wrapped_dek: wrappedKey(), ...over };
}

/** A well-formed POST /teams/:id/grants for somebody. */
export function grantBody(member: Person, over: Record<string, unknown> = {}): Record<string, unknown> {
  return {
    member_id: member.subject,
    member_pubkey: PUBLIC_KEY,
    wrapped_dek: wrappedKey(),
    role: "write",
    ...over,
  };
}

/** A well-formed POST /teams/:id/rotate that wraps for those who stay. */
export function rotateBody(stay: Person[], over: Record<string, unknown> = {}): Record<string, unknown> {
  return {
    grants: stay.map(({ subject }) => ({ member_id: subject, wrapped_dek: wrappedKey() })),
    ...over,
  };
}

/** A well-formed POST /teams/:id/memories. */
export function memoryBody(over: Record<string, unknown> = {}, bytes: Uint8Array = randomBytes(64)) {
  return { ciphertext_b64: Buffer.from(bytes).toString("base64"), ...over };
}

/** A new team of somebody, or of a new person. */
export async function newTeam(world: World, owner?: Person): Promise<Team> {
  const maker = owner ?? await newPerson(world);
  const made = await send(world, maker, "POST", "/teams", teamBody());
  assert.equal(made.status, 201, made.text);
  return { id: made.body.id, owner: maker };
}

/** Wraps the team's key for somebody; the owner does it. */
export function grant(
  service: Service,
  team: Team,
  member: Person,
  over: Record<string, unknown> = {},
): Promise<Answer> {
  return send(service, team.owner, "POST", `/teams/${team.id}/grants`, grantBody(member, over));
}

/** A new member of a team, with a grant. */
export async function newMember(world: World, team: Team, role: Role = "write"): Promise<Person> {
  const member = await newPerson(world);
  const granted = await grant(world, team, member, { role });
  assert.equal(granted.status, 201, granted.text);
  return member;
}

/** Rotates as the owner, wrapping for those who stay. */
export function rotate(
  service: Service,
  team: Team,
  stay: Person[],
  over: Record<string, unknown> = {},
): Promise<Answer> {
  return send(service, team.owner, "POST", `/teams/${team.id}/rotate`, rotateBody(stay, over));
}

/** Removes somebody as the owner; `stay` are all others who hold a grant. */
export async function remove(world: World, team: Team, member: Person, stay: Person[]): Promise<void> {
  const rotated = await rotate(world, team, stay, { revoke_member_id: member.subject });
  assert.equal(rotated.status, 200, rotated.text);
}

/** Appends a memory. */
export function write(service: Service, team: Team, by: Person, over: Record<string, unknown> = {}) {
  return send(service, by, "POST", `/teams/${team.id}/memories`, memoryBody(over));
}

/** Invites an address as the owner. */
export function invite(service: Service, team: Team, email: string, over: Record<string, unknown> = {}) {
  return send(service, team.owner, "POST", `/teams/${team.id}/invitations`, { email, ...over });
}

/** Accepts an invitation; asks what it is, each time from another address, when nobody is signed in. */
export function accept(service: Service, token: unknown, by?: Person): Promise<Answer> {
  const caller = by === undefined ? { headers: newAddress() } : { token: by.token };
  return service.request("POST", "/invitations/accept", { body: { token }, ...caller });
}

/** The header of somebody in a network that nobody else is in, behind a proxy of ours. */
export function newAddress(): Record<string, string> {
  return {
    "x-forwarded-for": `2001:db8:${randomBytes(2).toString("hex")}:${
      randomBytes(2).toString("hex")
    }::1, 10.0.0.1`,
  };
}

/** The token in the newest mail to an address, once there have been `count` mails. */
export async function tokenFor(world: World, email: string, count = 1): Promise<string> {
  const mail = await eventually(`mail number ${count} to ${email} is sent`, () => {
    const mails = world.mails.filter(({ to }) => to === email);
    return mails.length >= count ? mails.at(-1) : undefined;
  });
  return /inv_[0-9A-Za-z_-]{43}/.exec(mail.text)![0];
}

/** Invites an address and waits for the token. */
export async function invitationFor(
  world: World,
  team: Team,
  email: string,
  over: Record<string, unknown> = {},
): Promise<string> {
  const before = world.mails.filter(({ to }) => to === email).length;
  const invited = await invite(world, team, email, over);
  assert.equal(invited.status, 201, invited.text);
  return await tokenFor(world, email, before + 1);
}

/** A new member who came by invitation and has no grant yet. */
export async function newGuest(world: World, team: Team, role: Role = "write"): Promise<Person> {
  const guest = await newPerson(world);
  const accepted = await accept(world, await invitationFor(world, team, guest.email, { role }), guest);
  assert.equal(accepted.status, 200, accepted.text);
  return guest;
}

/** A key of the team for an agent of somebody, made by that member unless told otherwise. */
export async function newSubkey(
  world: World,
  team: Team,
  bound: Person,
  by: Person = bound,
): Promise<{ id: string; token: string }> {
  const body = { name: "agent", ...(by === bound ? {} : { bound_member_id: bound.subject }) };
  const made = await send(world, by, "POST", `/teams/${team.id}/subkeys`, body);
  assert.equal(made.status, 201, made.text);
  return { id: made.body.id, token: made.body.raw_secret };
}

/** Gives somebody a subscription: seats that are null scale as the plan says. */
export async function subscribe(
  world: World,
  person: Person,
  plan: string,
  over: { seats?: number; polarSubscriptionId?: string } = {},
): Promise<void> {
  await world.sql.query(
    `insert into app.subscriptions (account_id, plan, status, quota_sync_ops, quota_storage_bytes, quota_subkeys,
            quota_devices, seat_count, included_seats, polar_subscription_id)
     select id, $2, 'active', 1, 1, 1, 1, $3::int, $3::int, $4 from app.accounts where subject = $1`,
    [person.subject, plan, over.seats ?? null, over.polarSubscriptionId ?? null],
  );
}

/** What has happened in a team, oldest first. */
export async function actionsOf(world: World, team: Team): Promise<string[]> {
  const { rows } = await world.sql.query(
    "select action from app.audit_entries where team_id = $1 order by seq",
    [team.id],
  );
  return rows.map(({ action }) => action);
}

/** A database from which no mail is claimed, so that nothing but the test makes tokens. */
export function withoutMail(db: Database): Database {
  return {
    call: (name, args) => db.call(name, args),
    rows: async (name, args, bytes) => name === "claim_mail" ? [] : await db.rows(name, args, bytes),
  };
}

/** Asserts that a request was refused with exactly this status and code. */
export function assertRefused(answer: Answer, status: number, code: string, message = answer.text): void {
  assert.deepEqual([answer.status, answer.body.error], [status, code], message);
}
