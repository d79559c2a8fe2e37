/** What a vault is to its model: all that decides what happens next. Times in hours. */

/** Somebody by number: heirs first, then guardians. */
export type Who = number;

export const HEIRS = 2;
export const GUARDIANS = 3;
export const QUORUM = 2;
const THRESHOLD = 2;

export type Action =
  | { kind: "look" }
  | { kind: "dispatch" }
  | { kind: "checkIn"; alive: boolean }
  | { kind: "veto"; alive: boolean }
  | { kind: "release"; alive: boolean }
  | { kind: "window"; hours: number; alive: boolean }
  | { kind: "claim"; by: Who }
  | { kind: "vote"; by: Who; vote: "concur" | "reject" }
  | { kind: "withdraw"; by: Who }
  | { kind: "decline"; by: Who }
  | { kind: "removeHeir"; heir: Who }
  | { kind: "pickUp"; by: Who };

/** What is to be answered: the status, and the code of a refusal. */
export interface Expected {
  status: number;
  error?: string;
}

/** A claim and its votes. */
export interface Claim {
  number: number;
  by: Who;
  votes: Map<Who, "concur" | "reject">;
  state: "gathering_votes" | "approved" | "contested" | "expired" | "withdrawn";
  expiresAt: number;
}

/** A change that waits. */
export interface Change {
  executesAt: number;
  requestedAt: number;
  proven: boolean;
  /** The window that it sets, or the heir that it removes. */
  window?: number;
  heir?: Who;
}

/** Everything that decides what happens next. */
export interface VaultModel {
  now: number;
  state: "active" | "releasing" | "released";
  lastCheckIn: number;
  reminders: number;
  remindedAt: number | null;
  trigger: "dead_man_switch" | "manual" | "guardian_claim" | null;
  releaseAt: number | null;
  blocked: boolean;
  pickedUp: boolean;
  window: number;
  people: { isIn: boolean; hasShare: boolean; cooldownDays: number; cooldownUntil: number }[];
  claims: Claim[];
  /** Number of the claim that brought the release about. */
  claimNumber: number | null;
  changes: Change[];
}

/** A vault whose switch was armed at hour 0: both heirs and all guardians are in, three hold a share. */
export function newModel(): VaultModel {
  return {
    now: 0,
    state: "active",
    lastCheckIn: 0,
    reminders: 0,
    remindedAt: null,
    trigger: null,
    releaseAt: null,
    blocked: false,
    pickedUp: false,
    window: 7 * 24,
    people: Array.from({ length: HEIRS + GUARDIANS }, (_, i) => ({
      isIn: true,
      hasShare: [0, HEIRS, HEIRS + 1].includes(i),
      cooldownDays: 7,
      cooldownUntil: 0,
    })),
    claims: [],
    claimNumber: null,
    changes: [],
  };
}

/** Lets time pass without anybody looking. */
export function pass(model: VaultModel, hours: number): void {
  model.now += hours;
}

/** Heirs come first. */
export function isHeir(who: Who): boolean {
  return who < HEIRS;
}

/** The claim that takes votes, or that brought the running release about. */
export function openClaim(model: VaultModel): Claim | undefined {
  return model.claims.findLast((claim) =>
    claim.state === "gathering_votes" || claim.number === model.claimNumber
  );
}

/** The refusal of somebody who is out. */
export function isMissing(model: VaultModel, who: Who): Expected | undefined {
  return model.people[who]!.isIn ? undefined : { status: 404, error: "invitation_not_found" };
}

/** Whether there is anybody to release to. */
export function hasHeir({ people }: VaultModel): boolean {
  return people.some(({ isIn }, i) => isIn && isHeir(i));
}

/** The asset's key is wrapped for both heirs, so without any share a confirmed heir is enough. */
export function canRelease(model: VaultModel): boolean {
  const shares = model.people.filter(({ hasShare }) => hasShare).length;
  return hasHeir(model) && (shares === 0 || shares >= THRESHOLD);
}
