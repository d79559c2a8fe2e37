/** A vault as it must be: the machine of docs/vault.md in plain code, for `vault_model_test.ts`. Times in hours. */

import {
  type Action,
  canRelease,
  type Change,
  type Claim,
  type Expected,
  hasHeir,
  isHeir,
  isMissing,
  openClaim,
  QUORUM,
  type VaultModel,
  type Who,
} from "./vault_model_state.ts";

const INTERVAL = 30 * 24;
const GRACE = 7 * 24;
const MANUAL_WINDOW = 24;
const CLAIM_WINDOW = 14 * 24;
const CLAIM_LIFE = 14 * 24;

/** Does the action: changes the model where the service must, and returns what it must answer. */
export function apply(model: VaultModel, action: Action): Expected {
  if (action.kind === "checkIn" && action.alive) return checkIn(model);
  const before = structuredClone(model);
  evaluate(model);
  const answer = act(model, action);
  // A refusal undoes all, also what looking had moved on; the next look does it again.
  if (answer.status >= 400) Object.assign(model, before);
  else evaluate(model);
  return answer;
}

/** Brings the model up to its time. */
export function evaluate(model: VaultModel): void {
  while (advance(model));
}

function act(model: VaultModel, action: Action): Expected {
  switch (action.kind) {
    case "look":
    case "dispatch":
      return { status: 200 };
    case "checkIn":
      return { status: 403, error: "proof_of_life_required" };
    case "veto":
      return action.alive ? veto(model) : { status: 403, error: "proof_of_life_required" };
    case "release":
      return action.alive ? release(model) : { status: 401, error: "session_jwt_required" };
    case "window":
      return setWindow(model, action.hours, action.alive);
    case "pickUp":
      return pickUp(model, action.by);
    case "removeHeir":
      return removeHeir(model, action.heir);
    case "decline":
      return isMissing(model, action.by) ?? decline(model, action.by);
    default:
      return isMissing(model, action.by) ?? actAsGuardian(model, action);
  }
}

function advance(model: VaultModel): boolean {
  const change = model.changes
    .filter((each) =>
      each.executesAt <= model.now && (each.proven || each.requestedAt < model.lastCheckIn) &&
      (model.state === "active" ||
        model.state === "releasing" && (each.executesAt <= model.releaseAt! || model.blocked))
    )
    .toSorted((a, b) => a.executesAt - b.executesAt)[0];
  if (change !== undefined) {
    model.changes = model.changes.filter((each) => each !== change);
    if (change.window !== undefined) model.window = change.window;
    if (change.heir !== undefined) leave(model, change.heir);
    return true;
  }
  const claim = model.claims.find(({ state }) => state === "gathering_votes");
  if (claim !== undefined && claim.expiresAt <= model.now) {
    endClaim(model, claim, "expired");
    return true;
  }
  if (model.state === "active") return advanceSwitch(model);
  if (model.state !== "releasing" || model.now < model.releaseAt!) return false;
  if (canRelease(model)) {
    model.state = "released";
    model.blocked = false;
    return true;
  }
  const wasBlocked = model.blocked;
  model.blocked = true;
  return !wasBlocked;
}

function advanceSwitch(model: VaultModel): boolean {
  const due = model.lastCheckIn + INTERVAL;
  const reminders = [due, due + GRACE / 2, due + GRACE - 24].filter((time) => time <= model.now).length;
  if (reminders > model.reminders) {
    model.reminders = reminders;
    model.remindedAt ??= model.now;
    return true;
  }
  if (reminders === 0 || !hasHeir(model)) return false;
  if (model.now < Math.max(due + GRACE, model.remindedAt! + 24)) return false;
  begin(model, "dead_man_switch", model.window);
  return true;
}

function begin(model: VaultModel, trigger: VaultModel["trigger"], window: number): void {
  model.state = "releasing";
  model.trigger = trigger;
  model.releaseAt = model.now + window;
}

function cancel(model: VaultModel): void {
  const claim = model.claims.find(({ number }) => number === model.claimNumber);
  model.state = "active";
  model.trigger = null;
  model.releaseAt = null;
  model.blocked = false;
  model.claimNumber = null;
  if (claim !== undefined) endClaim(model, claim, "contested");
}

function prove(model: VaultModel): void {
  model.lastCheckIn = model.now;
  model.reminders = 0;
  model.remindedAt = null;
}

function checkIn(model: VaultModel): Expected {
  const moved = model.lastCheckIn < model.now;
  if (moved) {
    prove(model);
    if (model.state === "releasing" && model.trigger === "dead_man_switch") cancel(model);
  }
  evaluate(model);
  return { status: 200 };
}

function veto(model: VaultModel): Expected {
  if (model.pickedUp) return { status: 409, error: "already_picked_up" };
  const claim = model.claims.find(({ state }) => state === "gathering_votes");
  if (model.state !== "active") cancel(model);
  else if (claim === undefined) return { status: 409, error: "nothing_to_veto" };
  else endClaim(model, claim, "contested");
  prove(model);
  return { status: 200 };
}

function release(model: VaultModel): Expected {
  if (model.state !== "active") return { status: 409, error: "wrong_vault_state" };
  if (!hasHeir(model)) return { status: 409, error: "no_confirmed_heir" };
  begin(model, "manual", MANUAL_WINDOW);
  return { status: 200 };
}

function setWindow(model: VaultModel, hours: number, proven: boolean): Expected {
  if (model.state === "released") return { status: 409, error: "wrong_vault_state" };
  model.changes = model.changes.filter(({ window }) => window === undefined);
  if (hours >= model.window) model.window = hours;
  else model.changes.push({ ...newChange(model, proven), window: hours });
  return { status: 200 };
}

function removeHeir(model: VaultModel, heir: Who): Expected {
  if (model.state !== "active") return { status: 409, error: "wrong_vault_state" };
  if (!model.people[heir]!.isIn) return { status: 200 };
  if (!model.changes.some((each) => each.heir === heir)) {
    model.changes.push({ ...newChange(model, true), heir });
  }
  return { status: 202 };
}

function newChange(model: VaultModel, proven: boolean): Change {
  const cooling = Math.max(model.window, CLAIM_WINDOW);
  return { executesAt: model.now + cooling, requestedAt: model.now, proven };
}

function decline(model: VaultModel, who: Who): Expected {
  leave(model, who);
  return { status: 200 };
}

function leave(model: VaultModel, who: Who): void {
  Object.assign(model.people[who]!, { isIn: false, hasShare: false });
  model.changes = model.changes.filter((each) => each.heir !== who);
  for (const claim of model.claims) {
    if (claim.state === "gathering_votes") claim.votes.delete(who);
  }
}

function pickUp(model: VaultModel, who: Who): Expected {
  if (!model.people[who]!.isIn) return { status: 404, error: "invitation_not_found" };
  if (!isHeir(who)) return { status: 403, error: "forbidden_person" };
  if (model.state !== "released") return { status: 403, error: "not_released" };
  model.pickedUp = true;
  return { status: 200 };
}

function actAsGuardian(
  model: VaultModel,
  action: Action & { kind: "claim" | "vote" | "withdraw" },
): Expected {
  if (isHeir(action.by)) return { status: 403, error: "forbidden_person" };
  if (action.kind === "claim") return claim(model, action.by);
  const about = openClaim(model) ?? model.claims.at(-1);
  if (about === undefined) return { status: 404, error: "claim_not_found" };
  return action.kind === "vote"
    ? vote(model, about, action.by, action.vote)
    : withdraw(model, about, action.by);
}

function claim(model: VaultModel, by: Who): Expected {
  const me = model.people[by]!;
  if (model.state !== "active") return { status: 409, error: "wrong_vault_state" };
  if (openClaim(model) !== undefined) return { status: 409, error: "claim_exists" };
  if (me.cooldownUntil > model.now) return { status: 409, error: "claim_cooling_down" };
  if (model.people.filter(({ isIn }, i) => isIn && !isHeir(i)).length <= QUORUM) {
    return { status: 409, error: "too_few_guardians" };
  }
  if (!hasHeir(model)) return { status: 409, error: "no_confirmed_heir" };
  model.claims.push({
    number: model.claims.length,
    by,
    votes: new Map([[by, "concur"]]),
    state: "gathering_votes",
    expiresAt: model.now + CLAIM_LIFE,
  });
  return { status: 201 };
}

function vote(model: VaultModel, about: Claim, by: Who, word: "concur" | "reject"): Expected {
  if (about.votes.get(by) === word) return { status: 200 };
  const takesVotes = about.state === "gathering_votes" && model.state === "active" ||
    about.number === model.claimNumber && model.state === "releasing";
  if (!takesVotes) return { status: 409, error: "claim_closed" };
  about.votes.set(by, word);
  const count = (which: string) =>
    [...about.votes].filter(([who, each]) => each === which && model.people[who]!.isIn).length;
  if (count("reject") >= QUORUM) {
    if (about.state === "approved") cancel(model);
    else endClaim(model, about, "contested");
  } else if (about.state === "gathering_votes" && count("concur") >= QUORUM) {
    about.state = "approved";
    model.claimNumber = about.number;
    begin(model, "guardian_claim", CLAIM_WINDOW);
  }
  return { status: 200 };
}

function withdraw(model: VaultModel, about: Claim, by: Who): Expected {
  if (about.by !== by) return { status: 404, error: "claim_not_found" };
  if (about.state === "withdrawn") return { status: 200 };
  if (about.state !== "gathering_votes") return { status: 409, error: "claim_closed" };
  endClaim(model, about, "withdrawn");
  return { status: 200 };
}

function endClaim(model: VaultModel, about: Claim, state: Claim["state"]): void {
  about.state = state;
  const maker = model.people[about.by]!;
  maker.cooldownUntil = model.now + 24 * maker.cooldownDays;
  if (state === "contested") maker.cooldownDays = Math.min(maker.cooldownDays * 2, 365);
}
