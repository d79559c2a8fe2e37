/** A team as plain data: what each action on it must answer, and what it leaves. */

import type { Expected } from "./model_runner.ts";
import type { Role } from "./teams.ts";

/** People are numbers; 0 makes the team. */
export type Who = number;

/** The epoch that a request names, if it names one. */
export type NamedEpoch = "running" | "wrong" | "none";

/** What somebody does. */
export type Action =
  | { kind: "grant"; by: Who; member: Who; role: Role; epoch: NamedEpoch }
  | {
    kind: "rotate";
    by: Who;
    revoke: Who | null;
    wraps: "all" | "too few" | "a stranger";
    epoch: NamedEpoch;
  }
  | { kind: "write"; by: Who; epoch: NamedEpoch }
  | { kind: "subkey"; by: Who }
  | { kind: "invite"; by: Who; guest: Who; role: Role }
  | { kind: "accept"; by: Who; guest: Who };

/** A team, its members and open invitations, and how much has happened. */
export interface TeamModel {
  /** Whether seats are added when all are taken. */
  scales: boolean;
  seats: number;
  epoch: number;
  members: Map<Who, { role: Role; hasGrant: boolean }>;
  invitations: Map<Who, Role>;
  memories: number;
  /** Entries in the ledger. */
  changes: number;
}

const RANK: Record<Role, number> = { read: 0, write: 1, admin: 2 };

/** A team that person 0 has just made. */
export function newModel(scales: boolean, seats: number): TeamModel {
  return {
    scales,
    seats,
    epoch: 0,
    members: new Map([[0, { role: "admin", hasGrant: true }]]),
    invitations: new Map(),
    memories: 0,
    changes: 1,
  };
}

/** Whom a rotation wraps the key for, as far as its author means to. */
export function holdersAfter({ members }: TeamModel, revoke: Who | null): Who[] {
  return [...members].filter(([who, { hasGrant }]) => hasGrant && who !== revoke).map(([who]) => who);
}

/** Does the action: changes the model where the service must, and returns what it must answer. */
export function apply(model: TeamModel, action: Action): Expected {
  switch (action.kind) {
    case "grant":
      return refusal(model, action.by, "admin") ?? stale(action.epoch) ?? applyGrant(model, action);
    case "rotate":
      return refusal(model, action.by, "admin") ?? stale(action.epoch) ?? applyRotation(model, action);
    case "write":
      return refusal(model, action.by, "write") ?? keyless(model, action.by) ?? stale(action.epoch) ??
        applyWrite(model);
    case "subkey":
      return refusal(model, action.by, "write") ?? keyless(model, action.by) ?? changed(model, 201);
    case "invite":
      return refusal(model, action.by, "admin") ?? applyInvitation(model, action);
    case "accept":
      return applyAcceptance(model, action);
  }
}

function applyGrant(model: TeamModel, { member, role }: Action & { kind: "grant" }): Expected {
  const present = model.members.get(member);
  if (present === undefined) {
    // Whoever is invited as well has a seat already.
    if (!model.invitations.has(member) && isFull(model)) return { status: 403, error: "seat_limit_reached" };
  } else if (present.role === "admin" && role !== "admin" && countAdmins(model, member) === 0) {
    return { status: 409, error: "last_admin" };
  }
  model.members.set(member, { role, hasGrant: true });
  model.invitations.delete(member);
  return changed(model, 201);
}

function applyRotation(model: TeamModel, { revoke, wraps }: Action & { kind: "rotate" }): Expected {
  if (revoke !== null && !model.members.has(revoke)) return { status: 400, error: "unknown_member" };
  if (revoke !== null && countAdmins(model, revoke) === 0) return { status: 409, error: "last_admin" };
  if (wraps === "a stranger") return { status: 400, error: "unknown_member" };
  const holders = holdersAfter(model, revoke);
  if (wraps === "too few" && holders.length > 0) return { status: 400, error: "incomplete_grants" };
  if (revoke !== null) {
    model.members.delete(revoke);
    model.changes++;
  }
  model.epoch++;
  return changed(model, 200);
}

function applyWrite(model: TeamModel): Expected {
  model.memories++;
  return { status: 201 };
}

function applyInvitation(model: TeamModel, { guest, role }: Action & { kind: "invite" }): Expected {
  if (!model.invitations.has(guest) && isFull(model)) return { status: 403, error: "seat_limit_reached" };
  model.invitations.set(guest, role);
  return changed(model, 201);
}

function applyAcceptance(model: TeamModel, { by, guest }: Action & { kind: "accept" }): Expected {
  const role = model.invitations.get(guest);
  if (role === undefined || by !== guest) return { status: 404, error: "invitation_not_found" };
  model.invitations.delete(guest);
  if (!model.members.has(guest)) model.members.set(guest, { role, hasGrant: false });
  return changed(model, 200);
}

function refusal({ members }: TeamModel, by: Who, role: Role): Expected | undefined {
  const member = members.get(by);
  if (member === undefined) return { status: 403, error: "not_a_team_member" };
  return RANK[member.role] < RANK[role] ? { status: 403, error: "forbidden_role" } : undefined;
}

function keyless({ members }: TeamModel, by: Who): Expected | undefined {
  return members.get(by)!.hasGrant ? undefined : { status: 403, error: "no_grant" };
}

function stale(epoch: NamedEpoch): Expected | undefined {
  return epoch === "wrong" ? { status: 409, error: "stale_rotation" } : undefined;
}

function isFull({ scales, seats, members, invitations }: TeamModel): boolean {
  return !scales && members.size + invitations.size >= seats;
}

function countAdmins({ members }: TeamModel, except: Who): number {
  return [...members].filter(([who, { role, hasGrant }]) => role === "admin" && hasGrant && who !== except)
    .length;
}

function changed(model: TeamModel, status: number): Expected {
  model.changes++;
  return { status };
}
