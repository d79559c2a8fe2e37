/** What webhooks are to their model: all that decides what is sent next, and what was sent. Times in seconds. */

/** Somebody who has webhooks, an endpoint, a webhook: all by number. */
export type Who = number;
export const OWNERS = 2;
export const ENDPOINTS = 3;
/** Webhooks that each owner has from the start, of events that do not happen here: the last is close to the limit. */
export const STOCK = [0, 18];

export const HOUR = 3_600;
export const DAY = 24 * HOUR;

const FOLLOWED_BY_A_RUN: Action["kind"][] = ["append", "makeKey", "revokeKey", "test"];
/** With what one more event adds, not more than such a run delivers. */
const DUE_MAX = 25;

/** How an endpoint answers; null when it does not within the sender's time. */
export const ANSWERS = {
  well: { status: 204 },
  broken: { status: 500 },
  busy: { status: 503, retryAfter: 2 * HOUR },
  moved: { status: 302 },
  slow: { status: null },
  gone: { status: 410 },
} as const satisfies Record<string, { status: number | null; retryAfter?: number }>;
export type Behaviour = keyof typeof ANSWERS;

/** Events that happen here, beside `webhook.test`. */
export const EVENTS = ["replication.appended", "api_key.created", "api_key.revoked"] as const;
export type EventType = typeof EVENTS[number];

/** URLs that nobody may register, even where private addresses are allowed; with the reason. */
export const BAD_URLS = [
  ["nonsense", "not_a_url"],
  ["ftp://127.0.0.1/hook", "not_https"],
  ["http://user:word@127.0.0.1/hook", "has_credentials"],
] as const;

/** What somebody does; `of` is a webhook, theirs or not, or none. */
export type Action =
  | { kind: "create"; by: Who; endpoint: number; events: string[]; badUrl: number | null }
  | { kind: "list"; by: Who }
  | { kind: "delete" | "test" | "rotate" | "deliveries"; by: Who; of: number }
  | { kind: "append"; by: Who; which: "next" | "same" | "too far" }
  | { kind: "makeKey"; by: Who }
  | { kind: "revokeKey"; by: Who; of: number }
  | { kind: "behave"; endpoint: number; as: Behaviour }
  /** Several at once, or one that dies before it can say what came of its deliveries. */
  | { kind: "dispatch"; workers: number; dies: boolean }
  /** The scheduler runs all the time, until so many runs had something to do. */
  | { kind: "schedule"; rounds: number };

/** Time passes, then somebody does something. */
export interface Step {
  after: number;
  does: Action;
}

/** A webhook. */
export interface Hook {
  number: number;
  owner: Who;
  endpoint: number;
  events: string[];
  state: "active" | "disabled" | "deleted";
  reason: "gone" | "failing" | null;
  failingSince: number | null;
  deletedAt: number | null;
  /** Number of the secret, counted from 0 for each webhook; the one before signs as well until then. */
  secret: number;
  previousUntil: number;
}

/** An event on its way to a webhook. */
export interface Delivery {
  number: number;
  hook: number;
  type: string;
  /** What the event tells of: a sequence number, a key, a webhook. */
  about: number;
  status: "pending" | "delivered" | "exhausted" | "canceled";
  attempts: number;
  /** When it is due, give or take; the clock of the test takes the middle. */
  dueAt: number;
  dueFrom: number;
  dueUntil: number;
  leaseUntil: number | null;
  lastStatus: number | null;
  lastError: string | null;
  createdAt: number;
}

/** A request to an endpoint. */
export interface Sent {
  endpoint: number;
  delivery: number;
  type: string;
  about: number;
  /** Numbers of the secrets that sign it. */
  signers: number[];
  /** What the endpoint answers; null when it does not in time. */
  answer: number | null;
}

/** Everything that decides what happens next. */
export interface WebhookModel {
  now: number;
  endpoints: Behaviour[];
  /** Those that are not forgotten; a deleted one is after a day. */
  hooks: Hook[];
  hooksMade: number;
  deliveries: Delivery[];
  /** All deliveries that there have ever been: where they go, and whether they were tried in vain. */
  owed: { hook: number; isExhausted: boolean }[];
  sent: Sent[];
  owners: { log: number; keys: { revoked: boolean }[]; disabled: number }[];
  /** What the last run said. */
  report: Report;
}

/** What a run of the dispatcher did. */
export interface Report {
  delivered: number;
  failed: number;
}

/** Nobody has a webhook yet that hears of anything. */
export function newModel(): WebhookModel {
  return {
    now: 0,
    endpoints: ["well", "broken", "busy"],
    hooks: [],
    hooksMade: 0,
    deliveries: [],
    owed: [],
    sent: [],
    owners: Array.from({ length: OWNERS }, () => ({ log: 0, keys: [], disabled: 0 })),
    report: { delivered: 0, failed: 0 },
  };
}

/** The webhook that an action is about, whoever owns it; undefined when there is none. */
export function hookOf({ hooks }: WebhookModel, of: number): Hook | undefined {
  return hooks[of % Math.max(hooks.length, 1)];
}

/** The deliveries of a webhook that are still known, oldest first. */
export function deliveriesOf(model: WebhookModel, hook: number): Delivery[] {
  return model.deliveries.filter((each) => each.hook === hook);
}

/** Whether nothing is sent to a webhook, because a worker may be at it. */
export function isBusy(model: WebhookModel, hook: number): boolean {
  return deliveriesOf(model, hook).some(({ leaseUntil }) => leaseUntil !== null && leaseUntil > model.now);
}

/** What is due to a webhook, the next first. */
export function dueTo(model: WebhookModel, { number, state }: Hook): Delivery[] {
  if (state !== "active" || isBusy(model, number)) return [];
  return deliveriesOf(model, number)
    .filter(({ status, dueAt }) => status === "pending" && dueAt <= model.now)
    .toSorted((a, b) => a.dueAt - b.dueAt || a.number - b.number);
}

/**
 * What is done in place of an action: some are followed by a run of fifty deliveries at most, so when that many may wait,
 * the dispatcher is called first.
 */
export function inTurn(model: WebhookModel, does: Action): Action {
  if (!FOLLOWED_BY_A_RUN.includes(does.kind)) return does;
  const due = model.hooks.reduce((sum, hook) => sum + dueTo(model, hook).length, 0);
  return due > DUE_MAX ? { kind: "dispatch", workers: 1, dies: false } : does;
}

/** When there is something to do next, for a scheduler that runs all the time; undefined when there is nothing left. */
export function nextDue(model: WebhookModel): number | undefined {
  const waiting = model.deliveries.filter(({ status }) => status === "pending");
  const times = waiting.map(({ dueAt, hook }) =>
    Math.max(dueAt, ...deliveriesOf(model, hook).map(({ leaseUntil }) => leaseUntil ?? 0))
  );
  return times.length === 0 ? undefined : Math.max(Math.min(...times), model.now);
}
