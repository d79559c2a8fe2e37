/** Webhooks as they must be: docs/webhooks.md in plain code, for `webhook_model_test.ts`. Times in seconds. */

import type { Expected } from "./model_runner.ts";
import {
  type Action,
  ANSWERS,
  DAY,
  deliveriesOf,
  type Delivery,
  dueTo,
  type EventType,
  type Hook,
  hookOf,
  HOUR,
  inTurn,
  nextDue,
  type Step,
  STOCK,
  type WebhookModel,
  type Who,
} from "./webhook_model_state.ts";

const HOOKS_MAX = 20;
const ATTEMPTS_MAX = 10;
const LEASE = 60;
const GIVEN_UP_AFTER = 5 * DAY;
const FORGOTTEN_AFTER = 30 * DAY;
/** Waits after each failed attempt, each a tenth more or less. */
const PAUSES = [5, 300, 1_800, 2 * HOUR, 5 * HOUR, 10 * HOUR, 14 * HOUR, 20 * HOUR, 24 * HOUR];

const NOT_FOUND: Expected = { status: 404, error: "webhook_not_found" };

/** Lets time pass and does the action: changes the model where the service must, and returns what it must answer. */
export function apply(model: WebhookModel, { after, does: asked }: Step): Expected {
  model.now += after;
  const does = inTurn(model, asked);
  switch (does.kind) {
    case "create":
      return create(model, does);
    case "list":
      return { status: 200 };
    case "append":
      return append(model, does.by, does.which);
    case "makeKey":
      model.owners[does.by]!.keys.push({ revoked: false });
      emit(model, does.by, "api_key.created", model.owners[does.by]!.keys.length - 1);
      deliver(model);
      return { status: 201 };
    case "revokeKey":
      return revokeKey(model, does);
    case "behave":
      model.endpoints[does.endpoint] = does.as;
      return { status: 200 };
    case "dispatch":
      model.report = deliver(model, does.dies);
      return { status: 200 };
    case "schedule":
      schedule(model, does.rounds);
      return { status: 200 };
    default:
      return manage(model, does);
  }
}

/** One run after another, each when the next delivery is due. */
function schedule(model: WebhookModel, rounds: number): void {
  model.report = { delivered: 0, failed: 0 };
  for (let round = 0; round < rounds; round++) {
    const next = nextDue(model);
    if (next === undefined) return;
    model.now = next;
    const { delivered, failed } = deliver(model);
    model.report.delivered += delivered;
    model.report.failed += failed;
  }
}

function create(
  model: WebhookModel,
  { by, endpoint, events, badUrl }: Action & { kind: "create" },
): Expected {
  if (badUrl !== null) return { status: 400, error: "invalid_field:url" };
  const present = model.hooks.filter(({ owner, state }) => owner === by && state !== "deleted");
  if (present.length + STOCK[by]! >= HOOKS_MAX) return { status: 409, error: "webhook_limit_reached" };
  model.hooks = model.hooks.filter(({ owner, deletedAt }) =>
    owner !== by || deletedAt === null || deletedAt > model.now - DAY
  );
  const known = new Set(model.hooks.map(({ number }) => number));
  model.deliveries = model.deliveries.filter(({ hook }) => known.has(hook));
  model.hooks.push({
    number: model.hooksMade++,
    owner: by,
    endpoint,
    events,
    state: "active",
    reason: null,
    failingSince: null,
    deletedAt: null,
    secret: 0,
    previousUntil: 0,
  });
  return { status: 201 };
}

function manage(
  model: WebhookModel,
  does: Action & { kind: "delete" | "test" | "rotate" | "deliveries" },
): Expected {
  const hook = hookOf(model, does.of);
  if (hook === undefined || hook.owner !== does.by) return NOT_FOUND;
  if (does.kind === "delete") {
    hook.deletedAt ??= model.now;
    hook.state = "deleted";
    cancelAll(model, hook);
    return { status: 200 };
  }
  if (hook.state === "deleted") return NOT_FOUND;
  if (does.kind === "rotate") {
    hook.secret++;
    hook.previousUntil = model.now + DAY;
  }
  if (does.kind !== "test") return { status: 200 };
  if (hook.state === "disabled") return { status: 409, error: "webhook_disabled" };
  owe(model, hook, "webhook.test", hook.number);
  deliver(model);
  return { status: 202 };
}

function append(model: WebhookModel, by: Who, which: "next" | "same" | "too far"): Expected {
  if (which === "too far") return { status: 409, error: "sequence_gap" };
  const owner = model.owners[by]!;
  if (which === "same" && owner.log > 0) return { status: 200 };
  if (emit(model, by, "replication.appended", owner.log++)) deliver(model);
  return { status: 200 };
}

function revokeKey(model: WebhookModel, { by, of }: Action & { kind: "revokeKey" }): Expected {
  const { keys } = model.owners[by]!;
  const key = keys[of % Math.max(keys.length, 1)];
  if (key === undefined) return { status: 404, error: "api_key_not_found" };
  if (!key.revoked) emit(model, by, "api_key.revoked", keys.indexOf(key));
  key.revoked = true;
  deliver(model);
  return { status: 200 };
}

/** Tells the webhooks that listen at this moment; whether there are any. */
function emit(model: WebhookModel, owner: Who, type: EventType, about: number): boolean {
  const listening = model.hooks.filter((hook) =>
    hook.owner === owner && hook.state === "active" &&
    hook.events.some((each) => each === "*" || each === type)
  );
  for (const hook of listening) owe(model, hook, type, about);
  return listening.length > 0;
}

function owe(model: WebhookModel, { number: hook }: Hook, type: string, about: number): void {
  const number = model.owed.length;
  model.owed.push({ hook, isExhausted: false });
  model.deliveries.push({
    number,
    hook,
    type,
    about,
    status: "pending",
    attempts: 0,
    dueAt: model.now,
    dueFrom: model.now,
    dueUntil: model.now,
    leaseUntil: null,
    lastStatus: null,
    lastError: null,
    createdAt: model.now,
  });
}

/** One run: each delivery that is due is tried once, unless its webhook is disabled before or its worker dies. */
function deliver(model: WebhookModel, dies = false): { delivered: number; failed: number } {
  const report = { delivered: 0, failed: 0 };
  for (const each of model.deliveries) giveUpLost(model, each);
  for (const hook of model.hooks) {
    for (const delivery of dueTo(model, hook)) {
      const { status } = ANSWERS[model.endpoints[hook.endpoint]!];
      delivery.attempts++;
      model.sent.push({
        endpoint: hook.endpoint,
        delivery: delivery.number,
        type: delivery.type,
        about: delivery.about,
        signers: hook.previousUntil > model.now ? [hook.secret - 1, hook.secret] : [hook.secret],
        answer: status,
      });
      report[status === 204 ? "delivered" : "failed"]++;
      delivery.leaseUntil = dies ? model.now + LEASE : null;
      if (!dies) finish(model, hook, delivery);
      if (dies || hook.state !== "active") break;
    }
  }
  return report;
}

function giveUpLost(model: WebhookModel, delivery: Delivery): void {
  const { status, attempts, leaseUntil } = delivery;
  if (status !== "pending" || attempts < ATTEMPTS_MAX || leaseUntil === null || leaseUntil > model.now) {
    return;
  }
  exhaust(model, delivery);
  delivery.lastError = "never_finished";
  delivery.leaseUntil = null;
}

function finish(model: WebhookModel, hook: Hook, delivery: Delivery): void {
  const answer = ANSWERS[model.endpoints[hook.endpoint]!];
  delivery.lastStatus = answer.status;
  if (answer.status === 204) {
    delivery.status = "delivered";
    delivery.lastError = null;
    hook.failingSince = null;
  } else {
    delivery.lastError = answer.status === null ? "timeout" : `http_${answer.status}`;
    if (delivery.attempts >= ATTEMPTS_MAX) exhaust(model, delivery);
    putOff(model, delivery, "retryAfter" in answer ? answer.retryAfter : 0);
    hook.failingSince ??= model.now;
    if (answer.status === 410) disable(model, hook, "gone");
    else if (hook.failingSince <= model.now - GIVEN_UP_AFTER) disable(model, hook, "failing");
  }
  model.deliveries = model.deliveries.filter((each) =>
    each === delivery || each.hook !== hook.number || each.status === "pending" ||
    each.createdAt > model.now - FORGOTTEN_AFTER
  );
}

function exhaust({ owed }: WebhookModel, delivery: Delivery): void {
  delivery.status = "exhausted";
  owed[delivery.number]!.isExhausted = true;
}

function putOff({ now }: WebhookModel, delivery: Delivery, retryAfter: number): void {
  const pause = PAUSES[Math.min(delivery.attempts, PAUSES.length) - 1]!;
  delivery.dueAt = now + Math.max(pause, retryAfter);
  delivery.dueFrom = now + Math.max(pause * 0.9, retryAfter);
  delivery.dueUntil = now + Math.max(pause * 1.1, retryAfter);
}

function disable(model: WebhookModel, hook: Hook, reason: "gone" | "failing"): void {
  hook.state = "disabled";
  hook.reason = reason;
  model.owners[hook.owner]!.disabled++;
  cancelAll(model, hook);
}

function cancelAll(model: WebhookModel, { number }: Hook): void {
  for (const each of deliveriesOf(model, number)) if (each.status === "pending") each.status = "canceled";
}
